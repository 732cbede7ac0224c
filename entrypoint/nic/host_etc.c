/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/host_files_internal.h"

#include <string.h>
#include <time.h>

#include "common/fs.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/nic/udev_internal.h"
#include "entrypoint/rdma/peermem.h"

#define MEMORY_FOLDER NIC_STATE_FOLDER "/host-files"
#define JOURNAL       "hostfiles.journal"

/* Of a file that may be another container's. */
#define STOCK_LIMIT (64UL * 1024)

/* The host's files for one action, and what is to be reported of them. */
struct work {
	struct action *action;
	const struct nic *nic;
	char *log;
	struct strv notes;
	bool changed;
	struct hostfiles files;
};

static void work_begin(struct work *work, struct action *action)
{
	const struct nic *nic = nic_of(action->role);

	*work = (struct work){ .action = action, .nic = nic };
	if (asprintf(&work->log, "%s/" JOURNAL, nic->inputs.journal_folder) < 0)
		work->log = NULL;
	work->files = (struct hostfiles){
		.root_fd = nic->role.root_fd,
		.log = work->log ? work->log : NIC_STATE_FOLDER "/" JOURNAL,
		.memory_folder = MEMORY_FOLDER,
		.notes = &work->notes,
		.changed = &work->changed,
	};
}

static void wait_ms(uint32_t milliseconds)
{
	const struct timespec time = { .tv_sec = milliseconds / 1000,
		.tv_nsec = (long) (milliseconds % 1000) * 1000000 };

	(void) nanosleep(&time, NULL);
}

/* Were an event to come first, udevd would treat it by its old rules. */
static void announce(const struct work *work)
{
	if (!work->changed || udevd_reload(work->files.root_fd, UDEVD_LOOK_MS))
		return;
	nic_note(work->action,
		"udevd does not take the word to read its rules anew: waited until it looks by "
		"itself, %u s",
		UDEVD_LOOK_MS / 1000);
	wait_ms(UDEVD_LOOK_MS);
}

static int work_end(struct work *work)
{
	for (size_t i = 0; i < work->notes.count; i++)
		nic_note(work->action, "%s", work->notes.items[i]);
	strv_free(&work->notes);
	free(work->log);
	return 0;
}

static void tell_failure(const struct work *work, const char *consequence, const struct error *why)
{
	nic_note(work->action, "%.600s: %s", why->text, consequence);
}

static void tell_undone(const struct work *work, int result, const struct error *why)
{
	if (result < 0)
		tell_failure(work, "it stays, and says nothing after the node's next boot", why);
}

static void undo(struct work *work, const char *path)
{
	struct error why = { "" };

	tell_undone(work, hostfiles_undo(&work->files, path, &why), &why);
}

static void undo_others(struct work *work, const char *keep)
{
	struct error why = { "" };

	tell_undone(work, hostfiles_undo_others(&work->files, keep, &why), &why);
}

static int push_all(struct strv *names, const struct strv *more)
{
	for (size_t i = 0; i < more->count; i++)
		if (strv_push_unique(names, more->items[i]) < 0)
			return -ENOMEM;
	return 0;
}

/* Not nvidia_peermem: the GPU side loads it, and waits for us by itself. */
static int push_going(struct strv *names, const struct swap_plan *swap)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < swap->go_count; i++)
		if (strcmp(swap->go[i].name, PEERMEM_MODULE) != 0)
			r = strv_push_unique(names, swap->go[i].name);
	return r;
}

/*
 * Of the image's modules those that are to come; before there is a plan, all of them. A set may
 * bring more, such as NVMe's own driver, and what the image's need of the kernel's own is for
 * others on the host, too: those the host loads as ever.
 */
static int push_coming(struct strv *names, const struct nic *nic)
{
	const struct strv *set = &nic->role.driver_modules;
	const struct strv *load = &nic->swap.load;
	int r = 0;

	for (size_t i = 0; r == 0 && i < set->count; i++)
		if (!load->count || strv_contains(load, set->items[i]))
			r = strv_push_unique(names, set->items[i]);
	return r;
}

/* "blacklist" for what a device asks for, "install" for what another module needs. */
static char *blacklist_text(const struct nic *nic)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	int r = push_all(&names, &nic->inputs.blacklist);

	if (r == 0)
		r = push_coming(&names, nic);
	if (r == 0)
		r = push_going(&names, &nic->swap);
	if (r == 0)
		r = strv_push(&lines,
			"# Written by slipway-init while it replaces these modules: the host is to load "
			"none of its own meanwhile.\n"
			"# It is gone a few seconds later, and says nothing after a reboot.");
	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = strv_pushf(&lines, "blacklist %s\ninstall %s /bin/false", names.items[i],
			names.items[i]);
	if (r == 0)
		r = strv_push(&lines, "");
	return r < 0 ? NULL : strv_join(&lines, "\n");
}

static void put_blacklist(struct work *work)
{
	_cleanup_free_ char *text = blacklist_text(work->nic);
	struct error why = { "no memory for the blacklist" };

	if (!text || hostfiles_put(&work->files, work->nic->inputs.blacklist_file, text, &why) < 0)
		tell_failure(
			work, "the host may load modules of its own while they are replaced", &why);
}

static int rules_text(const struct work *work, char **ret_text, struct error *error)
{
	_cleanup_strv_ struct strv modules = { 0 };
	const struct name_rules rules = {
		.root_fd = work->files.root_fd, .modules = &modules, .notes = work->files.notes
	};
	int r = push_all(&modules, &work->nic->role.driver_modules);

	if (r == 0)
		r = push_going(&modules, &work->nic->swap);
	return r < 0 ? error_set_errno(error, r, "udev rules")
		     : name_rules_make(&rules, ret_text, error);
}

/* Where nothing is swapped the rules of an earlier container are right. */
static void put_rules(struct work *work)
{
	const char *path = work->nic->inputs.udev_rules;
	_cleanup_free_ char *text = NULL;
	struct error why = { "" };

	if (work->nic->swap.same && hostfiles_is_there(&work->files, path))
		return;
	if (rules_text(work, &text, &why) < 0 || hostfiles_put(&work->files, path, text, &why) < 0)
		tell_failure(work, "udev may give interfaces other names", &why);
}

/*
 * What the stock container writes there (Mellanox/doca-driver-build, entrypoint.sh:
 * generate_ofed_modules_blacklist() and create_udev_rules(); its Go entrypoint writes the same):
 * by what its file begins, and with what each line that says something does.
 */
struct stock {
	const char *first;
	const char *const *words; /* NULL at the end */
};

static const char *const stock_blacklist_words[] = { "blacklist ",
	"# blacklist third-party RDMA modules to prevent reload conflicts",
	"# blacklist mlx5 auxiliary modules to prevent reload races", NULL };

static const struct stock stock_blacklist = {
	"# blacklist ofed-related modules on host to prevent inbox or host OFED driver loading\n",
	stock_blacklist_words
};

static const char *const stock_rules_words[] = { "SUBSYSTEM!=\"net\", GOTO=",
	"DRIVERS==\"mlx5_core\",", "PROGRAM=\"/bin/sh -c 'echo $env{ID_NET_NAME_",
	"ENV{ID_NET_NAME_", "LABEL=\"mlnx_ofed_name_end\"", "# Rename physical interfaces",
	"# Example names:", "# enp8s0f0np", NULL };

static const struct stock stock_rules = { "ACTION!=\"add\", GOTO=\"mlnx_ofed_name_end\"\n",
	stock_rules_words };

static bool begins_as_one(const char *line, const char *const *words)
{
	for (; *words; words++)
		if (strncmp(line, *words, strlen(*words)) == 0)
			return true;
	return false;
}

static bool is_stock(const struct stock *stock, const char *text)
{
	if (strncmp(text, stock->first, strlen(stock->first)) != 0)
		return false;
	for (text += strlen(stock->first); *text;
		text += strcspn(text, "\n"), text += *text == '\n') {
		text += strspn(text, " \t");
		if (*text && *text != '\n' && !begins_as_one(text, stock->words))
			return false;
	}
	return true;
}

/*
 * What the stock container left when it was killed: it writes these very files, and a blacklist of
 * its own keeps the host from loading any NIC driver after a reboot. What may be an
 * administrator's is his.
 */
static void forget_stock(struct work *work, const char *path, const struct stock *stock)
{
	_cleanup_free_ char *text = NULL;
	int root_fd = work->files.root_fd;

	if (hostfiles_is_there(&work->files, path) ||
		fs_read(root_fd, path, STOCK_LIMIT, &text, NULL) < 0 || !*text)
		return;
	if (!is_stock(stock, text)) {
		nic_note(work->action,
			"/%s was there before, by somebody else: it stays, and is out of the way only "
			"while this container has one there",
			path);
		return;
	}
	if (unlinkat(root_fd, path, 0) < 0)
		return;
	work->changed = true;
	nic_note(work->action,
		"/%s, which another NIC driver container left on the host, is removed", path);
}

int nic_host_files_clear(struct action *action)
{
	struct work work;
	const struct nic_inputs *inputs;
	bool keep;

	work_begin(&work, action);
	inputs = &work.nic->inputs;
	keep = inputs->ifnames_rule && hostfiles_is_there(&work.files, inputs->udev_rules);
	undo_others(&work, keep ? inputs->udev_rules : NULL);
	undo(&work, inputs->blacklist_file);
	if (!keep)
		undo(&work, inputs->udev_rules);
	forget_stock(&work, inputs->blacklist_file, &stock_blacklist);
	forget_stock(&work, inputs->udev_rules, &stock_rules);
	return work_end(&work);
}

int nic_host_files_put(struct action *action)
{
	struct work work;

	work_begin(&work, action);
	if (work.nic->inputs.ifnames_rule)
		put_rules(&work);
	if (!work.nic->swap.same)
		put_blacklist(&work);
	announce(&work);
	return work_end(&work);
}

int nic_host_files_undo(struct action *action)
{
	struct work work;

	work_begin(&work, action);
	undo(&work, work.nic->inputs.blacklist_file);
	undo(&work, work.nic->inputs.udev_rules);
	undo_others(&work, NULL);
	announce(&work);
	return work_end(&work);
}

int nic_unblock(struct action *action)
{
	struct work work;

	work_begin(&work, action);
	undo(&work, work.nic->inputs.blacklist_file);
	announce(&work);
	return work_end(&work);
}

int nic_block_again(struct action *action)
{
	struct work work;

	work_begin(&work, action);
	/* Where modules stay, nothing has to be kept from coming. */
	if (!nic_stays(&work.nic->role)) {
		put_blacklist(&work);
		announce(&work);
	}
	return work_end(&work);
}
