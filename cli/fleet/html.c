/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as one page: no script, nothing from a network, and all text escaped. */
#include "cli/fleet/fleet.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n<title>Driver images</title>\n"
	"<style>\n"
	"body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; "
	"padding: 0 1rem; color: #1b1b1b; background: #fff }\n"
	"table { border-collapse: collapse; width: 100% }\n"
	"caption, h1, h2 { text-align: left; font-weight: 600 }\n"
	"th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; "
	"border-bottom: 1px solid #ddd }\n"
	".number { text-align: right }\n"
	"code { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere }\n"
	".there { color: #1a6b2c } .missing, .unknown { color: #a3141b; font-weight: 600 }\n"
	".differs { color: #8a5300; font-weight: 600 } .not-asked, .quiet { color: #666 }\n"
	"@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616 } "
	"th, td { border-color: #3a3a3a } .there { color: #6cc483 } .missing, .unknown "
	"{ color: #ff8a8f } .differs { color: #f0b65a } .not-asked, .quiet { color: #9a9a9a } }\n"
	"</style>\n</head>\n<body>\n";

static void put_text(FILE *file, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			(void) fputs("&lt;", file);
			break;
		case '>':
			(void) fputs("&gt;", file);
			break;
		case '&':
			(void) fputs("&amp;", file);
			break;
		case '"':
			(void) fputs("&quot;", file);
			break;
		default:
			(void) fputc(*text, file);
		}
}

/* An element with this class, or none for "". */
static void put_element(FILE *file, const char *name, const char *class, const char *text)
{
	(void) fprintf(file, *class ? "<%s class=\"%s\">" : "<%s>", name, class);
	put_text(file, text);
	(void) fprintf(file, "</%s>", name);
}

static void put_images(FILE *file, const struct fleet_target *target)
{
	const struct fleet_image *image;
	size_t position = 0;

	while ((image = fleet_next_image(target, &position))) {
		put_element(file, "code", "", strrchr(image->reference, '/') + 1);
		if (strcmp(image->state, FLEET_NOT_ASKED) != 0) {
			(void) fputs(" ", file);
			put_element(file, "span", image->state, image->state);
		}
		if (*image->differs) {
			(void) fputs(": ", file);
			put_text(file, image->differs);
		}
		(void) fputs("<br>\n", file);
	}
	if (*target->problem) {
		(void) fputs("<span class=\"missing\">cannot be built</span>: ", file);
		put_text(file, target->problem);
	}
}

/* Is it known what updates bring? */
static bool has_ahead(const struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->target_count; i++)
		if (fleet->targets[i].nodes_ahead)
			return true;
	return false;
}

static void put_target(FILE *file, const struct fleet_target *target, bool ahead)
{
	(void) fputs("<tr><td>", file);
	put_element(file, "code", "", target->krel);
	(void) fputs("</td>", file);
	put_element(file, "td", "", target->os);
	put_element(file, "td", "", target->arch);
	(void) fprintf(file, "<td class=\"number\">%u</td>", target->nodes);
	if (ahead)
		(void) fprintf(file, "<td class=\"number\">%u</td>", target->nodes_ahead);
	(void) fputs("<td>", file);
	put_images(file, target);
	(void) fputs("</td></tr>\n", file);
}

/* The state of the worst of its images. */
static const char *worst_state(const struct fleet_target *target)
{
	const char *worst = *target->problem ? FLEET_MISSING : FLEET_THERE;
	const struct fleet_image *image;
	size_t position = 0;

	while ((image = fleet_next_image(target, &position))) {
		if (strcmp(image->state, FLEET_THERE) == 0)
			continue;
		if (*target->problem || strcmp(image->state, FLEET_UNKNOWN) != 0)
			return FLEET_MISSING;
		worst = FLEET_UNKNOWN;
	}
	return worst;
}

/* "3 nodes": those whose kernel lacks images, now or, with @ahead, after an update. */
static void put_count(FILE *file, const struct fleet *fleet, bool ahead, const char *registry)
{
	unsigned int lacking = 0, unknown = 0, all = 0, known = 0;

	for (size_t i = 0; i < fleet->target_count; i++) {
		const struct fleet_target *target = &fleet->targets[i];
		unsigned int nodes = ahead ? target->nodes_ahead : target->nodes;
		const char *state = worst_state(target);

		lacking += strcmp(state, FLEET_MISSING) == 0 ? nodes : 0;
		unknown += strcmp(state, FLEET_UNKNOWN) == 0 ? nodes : 0;
		all += target->nodes;
		known += nodes;
	}
	/* Those whose next kernel was not found, or is excluded. */
	unknown += all > known ? all - known : 0;
	(void) fprintf(file, "%s<span class=\"%s\">%u node%s</span>",
		ahead ? "; after the next update " : "",
		lacking   ? FLEET_MISSING
		: unknown ? FLEET_UNKNOWN
			  : FLEET_THERE,
		lacking, lacking == 1 ? "" : "s");
	if (!ahead) {
		(void) fprintf(file, " run%s a kernel whose images are not all in ",
			lacking == 1 ? "s" : "");
		put_element(file, "code", "", registry);
	}
	if (unknown)
		(void) fprintf(file, " (not known for %u)", unknown);
}

static void put_summary(FILE *file, const struct fleet *fleet, const char *registry)
{
	(void) fprintf(file, "<p>%zu kernel%s. ", fleet->target_count,
		fleet->target_count == 1 ? "" : "s");
	if (!registry) {
		(void) fputs("No registry was asked which images are there.</p>\n", file);
		return;
	}
	put_count(file, fleet, false, registry);
	if (has_ahead(fleet))
		put_count(file, fleet, true, registry);
	(void) fputs(".</p>\n", file);
}

static void put_lists(FILE *file, const struct fleet *fleet)
{
	if (fleet->excluded_count)
		(void) fputs("<h2>Excluded</h2>\n<ul>\n", file);
	for (size_t i = 0; i < fleet->excluded_count; i++) {
		const struct fleet_exclusion *excluded = &fleet->excluded[i];

		(void) fputs("<li>", file);
		put_element(file, "code", "", excluded->krel);
		if (*excluded->nvidia) {
			(void) fputs(" with NVIDIA ", file);
			put_text(file, excluded->nvidia);
		}
		(void) fputs(" by ", file);
		put_element(file, "code", "", excluded->pattern);
		(void) fprintf(file, ", %u node%s</li>\n", excluded->nodes,
			excluded->nodes == 1 ? "" : "s");
	}
	(void) fputs(fleet->excluded_count ? "</ul>\n" : "", file);
	if (fleet->warnings.count)
		(void) fputs("<h2>Warnings</h2>\n<ul>\n", file);
	for (size_t i = 0; i < fleet->warnings.count; i++) {
		put_element(file, "li", "", fleet->warnings.items[i]);
		(void) fputs("\n", file);
	}
	(void) fputs(fleet->warnings.count ? "</ul>\n" : "", file);
}

int fleet_write_html(
	const struct fleet *fleet, const char *registry, const char *path, struct error *error)
{
	bool ahead = has_ahead(fleet);
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	int r;

	if (!file)
		out_of_memory();
	(void) fputs(head, file);
	(void) fputs("<h1>Driver images of this cluster</h1>\n", file);
	put_summary(file, fleet, registry);
	(void) fprintf(file,
		"<table>\n<thead><tr><th>Kernel</th><th>Distribution</th><th>Architecture</th>"
		"<th class=\"number\">Nodes</th>%s<th>Images</th></tr></thead>\n<tbody>\n",
		ahead ? "<th class=\"number\">After an update</th>" : "");
	for (size_t i = 0; i < fleet->target_count; i++)
		put_target(file, &fleet->targets[i], ahead);
	(void) fputs("</tbody>\n</table>\n", file);
	put_lists(file, fleet);
	(void) fputs("</body>\n</html>\n", file);
	if (fclose(file) != 0)
		out_of_memory();
	r = fs_write_output(path, text, size);
	free(text);
	return r < 0 ? error_set_errno(error, r, "--html %s", path) : 0;
}
