/* SPDX-License-Identifier: Apache-2.0 */
/* What slipway probe saw on a node, against the tree that modules are compiled in. */
#include <string.h>

#include "kernels/lint/lint_rules.h"

#define NAMED_MAX 5 /* of many options or keys, some */

static const struct lint_node *node_of(const struct lint_check *check)
{
	return check->request->node;
}

/* The first of the texts, and how many more there are; NULL without memory. The caller frees it. */
static char *some_of(const struct strv *texts)
{
	_cleanup_strv_ struct strv named = { 0 };
	int r = 0;

	for (size_t i = 0; i < texts->count && i < NAMED_MAX && r == 0; i++)
		r = strv_push(&named, texts->items[i]);
	if (r == 0 && texts->count > NAMED_MAX)
		r = strv_pushf(&named, "%zu more", texts->count - NAMED_MAX);
	return r < 0 ? NULL : strv_join(&named, ", ");
}

static int sig_enforce(struct lint_check *check)
{
	const struct lint_node *node = node_of(check);
	_cleanup_free_ char *keys = NULL;

	if (check->request->signing || node->probe->sig_enforce != PROBE_YES)
		return 0;
	keys = some_of(&node->probe->keys);
	if (!keys)
		return -ENOMEM;
	return lint_add(check, "node-sig-enforce", LINT_ERROR,
		"sign the modules with a key that the node trusts (--sign-key, docs/signing.md); "
		"what --force makes without one, that node does not load",
		"the node enforces signatures (sig_enforce): it loads only modules signed by a key "
		"in its keyrings: %s",
		*keys ? keys : "the bundle names none, root's rights show them");
}

static int node_lockdown(struct lint_check *check)
{
	const char *lockdown = node_of(check)->probe->lockdown;

	if (check->request->signing || !lockdown || strcmp(lockdown, "none") == 0)
		return 0;
	return lint_add(check, "node-lockdown", LINT_ERROR,
		"sign the modules with a key that the node trusts (--sign-key, docs/signing.md); "
		"what --force makes without one, that node does not load",
		"the node is in lockdown (%s): it refuses modules that are not signed", lockdown);
}

/* Where the tree's own configuration says so too, no-module-unload is enough. */
static int node_no_unload(struct lint_check *check)
{
	if (node_of(check)->probe->module_unload != PROBE_NO ||
		!kernel_record_has(check->record, KOPT_MODULE_UNLOAD))
		return 0;
	return lint_add(check, "node-no-module-unload", LINT_WARNING,
		"plan a reboot for each update, and see node-config-differs",
		"MODULE_UNLOAD=n on the node: the driver can be loaded but never replaced without a "
		"reboot");
}

static int add_options(
	const struct kernel_record *tree, const struct kernel_record *node, struct strv *names)
{
	int r = 0;

	for (unsigned int i = 0; i < KOPT_COUNT && r == 0; i++)
		if (tree->options[i] != node->options[i])
			r = strv_pushf(names, "%s is %c there and %c in the tree",
				kernel_option_name(i), node->options[i], tree->options[i]);
	if (r == 0 && strcmp(tree->arch, node->arch) != 0)
		r = strv_pushf(
			names, "it is for %s there and for %s in the tree", node->arch, tree->arch);
	if (r == 0 && tree->page_kib != node->page_kib)
		r = strv_pushf(names, "pages have %u KiB there and %u in the tree", node->page_kib,
			tree->page_kib);
	if (r == 0 && strcmp(tree->compiler.version, node->compiler.version) != 0)
		r = strv_pushf(names, "it was made with %s %s there and %s %s in the tree",
			node->compiler.family, node->compiler.version, tree->compiler.family,
			tree->compiler.version);
	return r;
}

static int config_differs(struct lint_check *check)
{
	const struct kernel_record *node = node_of(check)->record;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;

	if (!node || !*check->record->config_source)
		return 0;
	if (add_options(check->record, node, &names) < 0)
		return -ENOMEM;
	if (names.count == 0)
		return 0;
	text = some_of(&names);
	if (!text)
		return -ENOMEM;
	return lint_add(check, "node-config-differs", LINT_WARNING,
		"give the headers of the node's own build: slipway probe --headers=yes on the node",
		"these headers are of another build than the node's kernel: %s", text);
}

static int symvers_differ(struct lint_check *check)
{
	const struct lint_node *node = node_of(check);

	if (node->symvers_differing == 0)
		return 0;
	return lint_add(check, "node-symvers-differ", LINT_WARNING,
		"give the headers of the node's own build: slipway probe --headers=yes on the node",
		"these headers are of another build than the node's kernel: of its %zu symbols %zu "
		"have another CRC or are not in the tree's Module.symvers, the first %s",
		node->symvers_count, node->symvers_differing, node->symvers_first);
}

const lint_rule lint_node_rules[] = {
	sig_enforce,
	node_lockdown,
	node_no_unload,
	config_differs,
	symvers_differ,
	NULL,
};
