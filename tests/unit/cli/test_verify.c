/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how slipway verify identifies its arguments, before anything is proven. */
#include "tests/unit/support.h"

#include "cli/verify/verify.h"

#define KREL  "6.1.0-1-test"
#define OTHER "5.15.0-9-other"

static void identify(const char *what, enum verify_kind kind, const char *place)
{
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;
	struct error error = { 0 };

	assert_int_equal(verify_input_identify(what, &input, &error), 0);
	assert_int_equal(input.kind, kind);
	assert_string_equal(input.name, what);
	assert_string_equal(input.place, place);
}

static void refuse(const char *what, const char *why)
{
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;
	struct error error = { 0 };

	assert_int_equal(verify_input_identify(what, &input, &error), -EINVAL);
	assert_contains(error.text, why);
}

static void inputs_are_known_by_what_they_are(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *layout = NULL;
	_cleanup_free_ char *tagged = NULL;
	_cleanup_free_ char *module = NULL;
	_cleanup_free_ char *file = NULL;

	folder_write_text(folder, "layout/oci-layout", "{}");
	folder_write_text(folder, "layout/index.json", "{}");
	folder_write_text(folder, "m.ko.xz", "");
	folder_write_text(folder, "image.tar", "");
	assert_true(asprintf(&layout, "%s/layout", folder->path) > 0);
	assert_true(asprintf(&tagged, "oci:%s/layout:latest", folder->path) > 0);
	assert_true(asprintf(&module, "%s/m.ko.xz", folder->path) > 0);
	assert_true(asprintf(&file, "%s/image.tar", folder->path) > 0);
	identify(folder->path, VERIFY_FOLDER, folder->path);
	identify(layout, VERIFY_LAYOUT, layout);
	identify(tagged, VERIFY_LAYOUT, layout);
	identify(module, VERIFY_MODULE, module);
	identify(file, VERIFY_ARCHIVE, file);
	identify("containers-storage:a/b:1", VERIFY_STORAGE, "a/b:1");
	identify("registry.invalid/driver:1", VERIFY_STORAGE, "registry.invalid/driver:1");
	refuse("containers-storage:", "name is missing");
	refuse("https://a/b", "no address of an image");
	refuse("/not/there", "No such file");
	refuse("./not-there", "No such file");
	refuse("not-there.ko", "No such file");
	refuse("oci-archive:/not/there", "No such file");
	refuse("", "No such file");
	refuse("/dev/null", "neither a folder nor a file");
}

static void refuse_outputs(const struct folder *folder, int code, const char *why)
{
	json_object *object = NULL;
	struct error error = { 0 };

	assert_int_equal(verify_input_read_outputs(folder->path, &object, &error), code);
	assert_contains(error.text, "/images.json: ");
	assert_contains(error.text, why);
	assert_null(object);
}

static void an_images_json_that_cannot_be_read_is_an_error(void **state)
{
	const struct folder *folder = *state;
	json_object *object = NULL;
	struct error error = { 0 };

	refuse_outputs(folder, -ENOENT, "No such file");
	folder_write_text(folder, "images.json", "{\"images\":[{\"role\":\"gpu\"");
	refuse_outputs(folder, -EBADMSG, "cut short");
	folder_write_text(folder, "images.json", "{\"images\":{}}");
	refuse_outputs(folder, -EBADMSG, "no list of images");
	folder_write_text(folder, "images.json", "{\"images\":[]}");
	assert_int_equal(verify_input_read_outputs(folder->path, &object, &error), 0);
	(void) json_object_put(object);
}

/* No kernel unpacks these, whatever libarchive can. */
static void packings_that_no_kernel_takes_are_refused_by_name(void **state)
{
	static const char *const names[] = { "m.ko.bz2", "m.ko.lz4", "m.ko.lzma" };
	const struct folder *folder = *state;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = NULL;

		folder_write_text(folder, names[i], "");
		assert_true(asprintf(&path, "%s/%s", folder->path, names[i]) > 0);
		refuse(path, strrchr(names[i], '.') + 1);
		refuse(path, "kernels cannot load modules compressed with");
	}
}

/* Lists the folder and leaves out what is not of KREL. */
static void choose(const struct folder *folder, struct verify_input *input)
{
	struct error error = { 0 };

	input->name = strdup("test");
	input->fd = dup(folder->fd);
	assert_int_equal(verify_input_list(input, &error), 0);
	verify_input_choose(input, KREL);
}

static void other_kernels_are_skipped(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;

	folder_write_text(folder, "drivers/" KREL "/a.ko", "");
	folder_write_text(folder, "drivers/" OTHER "/b.ko", "");
	folder_write_text(folder, "drivers/common/c.ko", "");
	folder_write_text(folder, "usr/lib/modules/4.18.0-1/d.ko", "");
	folder_write_text(folder, "opt/e.ko", "");
	folder_write_text(folder, "usr/src/ofa_kernel/x86_64/" KREL "/Module.symvers", "");
	folder_write_text(folder, "usr/src/ofa_kernel/x86_64/" OTHER "/Module.symvers", "");
	folder_write_text(folder, "drivers/" KREL "/notes.txt", "");
	choose(folder, &input);
	assert_int_equal(input.modules.count, 3);
	assert_string_equal(input.modules.items[0], "drivers/" KREL "/a.ko");
	assert_string_equal(input.modules.items[1], "drivers/common/c.ko");
	assert_string_equal(input.modules.items[2], "opt/e.ko");
	assert_int_equal(input.symvers.count, 1);
	assert_int_equal(input.skipped.count, 2);
	assert_string_equal(input.skipped.items[0], "4.18.0-1");
	assert_string_equal(input.skipped.items[1], OTHER);
	assert_int_equal(input.others.count, 0);
}

static void without_ours_all_are_taken(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;

	folder_write_text(folder, "lib/modules/" OTHER "/a.ko", "");
	folder_write_text(folder, "b.ko", "");
	choose(folder, &input);
	assert_int_equal(input.modules.count, 2);
	assert_int_equal(input.skipped.count, 0);
	assert_int_equal(input.others.count, 1);
	assert_string_equal(input.others.items[0], OTHER);
}

/* A name that only begins like the release is another's. */
static void a_longer_release_is_another(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;

	folder_write_text(folder, "lib/modules/" KREL "/a.ko", "");
	folder_write_text(folder, "lib/modules/" KREL "2/a.ko", "");
	choose(folder, &input);
	assert_int_equal(input.modules.count, 1);
	assert_string_equal(input.skipped.items[0], KREL "2");
}

static void links_count_where_they_lead_to_a_module(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;

	folder_write_text(folder, "opt/a.ko", "");
	assert_int_equal(symlinkat("opt/a.ko", folder->fd, "there.ko"), 0);
	assert_int_equal(symlinkat("/etc/hostname", folder->fd, "host.ko"), 0);
	assert_int_equal(symlinkat("nowhere", folder->fd, "nowhere.ko"), 0);
	assert_int_equal(symlinkat(".", folder->fd, "round"), 0);
	input.kind = VERIFY_ARCHIVE; /* its links are a stranger's */
	choose(folder, &input);
	assert_int_equal(input.modules.count, 2);
	assert_string_equal(input.modules.items[0], "opt/a.ko");
	assert_string_equal(input.modules.items[1], "there.ko");
}

static void options_are_read_as_modprobe_does(void **state)
{
	static const char text[] = "# options no comment=1\n"
				   "options my-mod a=1   b \tc=\"x y\" \\\n  d=2\n"
				   "  options other e=1\n"
				   "optionsx no f=1\n"
				   "blacklist my-mod\n"
				   "options lonely\n"
				   "options\n"
				   "options last g=1";
	static const char *const wanted[] = { "my_mod a=1", "my_mod b", "my_mod c=\"x y\"",
		"my_mod d=2", "other e=1", "last g=1" };
	_cleanup_strv_ struct strv options = { 0 };

	(void) state;
	modprobe_conf_parse(text, &options);
	assert_int_equal(options.count, ARRAY_SIZE(wanted));
	for (size_t i = 0; i < options.count; i++)
		assert_string_equal(options.items[i], wanted[i]);
}

static void modprobe_folders_hide_each_other_and_links_stay_in_the_root(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv options = { 0 };
	struct error error = { 0 };

	folder_write_text(folder, "etc/modprobe.d/a.conf", "options a one=1\n");
	folder_write_text(folder, "usr/lib/modprobe.d/a.conf", "options a hidden=1\n");
	folder_write_text(folder, "usr/lib/modprobe.d/b.conf", "options b two=2\n");
	folder_write_text(folder, "usr/lib/modprobe.d/readme", "options no conf=1\n");
	folder_write_text(folder, "etc/real", "options c three=3\n");
	folder_subfolder(folder, "lib/modprobe.d");
	assert_int_equal(symlinkat("/etc/real", folder->fd, "lib/modprobe.d/c.conf"), 0);
	assert_int_equal(symlinkat("/nowhere", folder->fd, "lib/modprobe.d/d.conf"), 0);
	assert_int_equal(mkfifoat(folder->fd, "etc/modprobe.d/pipe.conf", 0600), 0);
	assert_int_equal(modprobe_conf_read(folder->fd, &options, &error), 0);
	assert_int_equal(options.count, 3);
	assert_string_equal(options.items[0], "a one=1");
	assert_string_equal(options.items[1], "b two=2");
	assert_string_equal(options.items[2], "c three=3");
}

static void firmware_is_looked_for_where_the_kernel_looks(void **state)
{
	const struct folder *folder = *state;
	struct verify_input input = {
		.folder = strdup(folder->path), .fd = folder->fd, .root = true
	};
	struct verify firmware = {
		.inputs = &input, .input_count = 1, .kernel = { .facts = { .krel = KREL } }
	};

	assert_false(verify_firmware_judged(&firmware));
	folder_write_text(folder, "usr/lib/firmware/v/plain.bin", "");
	folder_write_text(folder, "lib/firmware/v/packed.bin.zst", "");
	folder_write_text(folder, "lib/firmware/updates/" KREL "/new.bin.xz", "");
	folder_write_text(folder, "lib/firmware/" KREL "/own.bin", "");
	folder_write_text(folder, "lib/firmware/v/chip-7.bin", "");
	folder_subfolder(folder, "lib/firmware/v/folder");
	assert_true(verify_firmware_judged(&firmware));
	assert_true(verify_firmware_there(&firmware, "v/plain.bin"));
	assert_true(verify_firmware_there(&firmware, "v/packed.bin"));
	assert_true(verify_firmware_there(&firmware, "new.bin"));
	assert_true(verify_firmware_there(&firmware, "own.bin"));
	assert_true(verify_firmware_there(&firmware, "v/chip-*.bin"));
	assert_false(verify_firmware_there(&firmware, "v/chip-*.img"));
	assert_false(verify_firmware_there(&firmware, "v/other.bin"));
	assert_false(verify_firmware_there(&firmware, "v/folder"));
	input.root = false;
	assert_false(verify_firmware_judged(&firmware));
	assert_false(verify_firmware_there(&firmware, "v/plain.bin"));
	free(input.folder);
}

static void find(const struct folder *folder, const char *path, bool build, bool modules)
{
	_cleanup_(verify_kernel_free) struct verify_kernel kernel = VERIFY_KERNEL_CLOSED;
	_cleanup_free_ char *full = NULL;
	struct error error = { 0 };

	assert_true(asprintf(&full, "%s/%s", folder->path, path) > 0);
	assert_int_equal(verify_kernel_open(&kernel, full, NULL, &error), 0);
	assert_string_equal(kernel.krel, KREL);
	assert_int_equal(kernel.symvers != NULL, build);
	assert_int_equal(kernel.own.fd >= 0, modules);
}

static void a_kernel_is_found_in_every_shape(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_kernel_free) struct verify_kernel kernel = VERIFY_KERNEL_CLOSED;
	struct error error = { 0 };

	folder_write_text(folder, "root/usr/src/headers/Module.symvers", "");
	folder_write_text(folder, "root/usr/src/headers/include/generated/utsrelease.h",
		"#define UTS_RELEASE \"" KREL "\"\n");
	folder_write_text(folder, "root/usr/lib/modules/" KREL "/modules.order", "");
	/* The link is right in that root only. */
	assert_int_equal(
		symlinkat("/usr/src/headers", folder->fd, "root/usr/lib/modules/" KREL "/build"),
		0);
	find(folder, "root", true, true);
	find(folder, "root/usr/lib/modules/" KREL, true, true);
	find(folder, "root/usr/src/headers", true, false);
	assert_int_equal(verify_kernel_open(&kernel, folder->path, NULL, &error), -EINVAL);
	assert_contains(error.text, "no kernel in this folder");
}

static char *path_in(const struct folder *folder, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", folder->path, name) > 0);
	return path;
}

/*
 * The file is recognised by its name or its first line, and only alone; beside another --kernel it
 * would hide that one's.
 */
static void a_symvers_file_is_a_kernel_of_its_own(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_kernel_free) struct verify_kernel kernel = VERIFY_KERNEL_CLOSED;
	_cleanup_free_ char *path = path_in(folder, "from-the-node.txt");
	_cleanup_free_ char *text = path_in(folder, "notes.txt");
	_cleanup_strv_ struct strv texts = { 0 };
	bool fetched = true;
	struct error error = { 0 };

	folder_write_text(folder, "from-the-node.txt",
		"0x01234567\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n");
	folder_write_text(folder, "notes.txt", "some words\n");
	assert_true(verify_is_symvers(path));
	assert_false(verify_is_symvers(text));
	assert_false(verify_is_symvers(folder->path));
	assert_int_equal(strv_push(&texts, path), 0);
	assert_int_equal(verify_kernel_identify(&texts, &fetched, &error), 0);
	assert_false(fetched);
	assert_int_equal(verify_kernel_open(&kernel, path, NULL, &error), 0);
	assert_string_equal(kernel.symvers_sources.items[0], path);
	assert_null(kernel.krel);
	assert_int_equal(symvers_count(kernel.symvers), 1);
	assert_int_equal(kernel.notes.count, 1);
	assert_int_equal(strv_push(&texts, KREL), 0);
	assert_int_equal(verify_kernel_identify(&texts, &fetched, &error), -EINVAL);
	assert_contains(error.text, "--with");
}

static void a_configuration_that_leads_nowhere_is_skipped(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_kernel_free) struct verify_kernel kernel = VERIFY_KERNEL_CLOSED;
	struct error error = { 0 };

	folder_write_text(folder, "lib/modules/" KREL "/modules.dep", "");
	folder_write_text(folder, "boot/config-" KREL, "CONFIG_MODULES=y\nCONFIG_LIVEPATCH=y\n");
	assert_int_equal(symlinkat("/nowhere", folder->fd, "lib/modules/" KREL "/config"), 0);
	assert_int_equal(verify_kernel_open(&kernel, folder->path, KREL, &error), 0);
	assert_int_equal(kernel.facts.options.force_load, PROOF_NO);
}

static void several_kernels_want_a_choice(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(verify_kernel_free) struct verify_kernel kernel = VERIFY_KERNEL_CLOSED;
	struct error error = { 0 };

	folder_write_text(folder, "lib/modules/" KREL "/modules.dep", "");
	folder_write_text(folder, "lib/modules/" OTHER "/modules.dep", "");
	folder_write_text(folder, "lib/modules/readme.d/nothing", "");
	assert_int_equal(verify_kernel_open(&kernel, folder->path, NULL, &error), -ENOTUNIQ);
	assert_contains(error.text, OTHER ", " KREL);
	assert_int_equal(verify_kernel_open(&kernel, folder->path, KREL, &error), 0);
	assert_string_equal(kernel.krel, KREL);
}

static void only_distributions_that_are_not_debians_take_symbols_without_versions(void **state)
{
	static const struct {
		const char *os, *krel;
		enum proof_option takes;
	} cases[] = {
		{ "rocky9", "5.14.0-503.14.1.el9_5.x86_64", PROOF_YES },
		{ "opensuse-leap15.6", "6.4.0-150600.23.25-default", PROOF_YES },
		{ "amzn2", "4.14.355-275.570.amzn2.x86_64", PROOF_YES },
		/* Linux has refused it too until 4.9. */
		{ "centos7", "3.10.0-1160.el7.x86_64", PROOF_UNKNOWN },
		{ "debian12", "6.1.0-56-amd64", PROOF_UNKNOWN },
		{ "ubuntu24.04", "6.8.0-49-generic", PROOF_UNKNOWN },
	};
	struct error error = { 0 };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(verify_kernel_free) struct verify_kernel kernel = VERIFY_KERNEL_CLOSED;
		_cleanup_(catalogue_free) struct catalogue os = { 0 };

		assert_int_equal(catalogue_open("kernels/catalogue", cases[i].os, &os, &error), 0);
		verify_kernel_take_os(&kernel, &os, cases[i].krel);
		assert_int_equal(kernel.facts.missing_versions, cases[i].takes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			only_distributions_that_are_not_debians_take_symbols_without_versions),
		folder_test(inputs_are_known_by_what_they_are),
		folder_test(an_images_json_that_cannot_be_read_is_an_error),
		folder_test(packings_that_no_kernel_takes_are_refused_by_name),
		folder_test(other_kernels_are_skipped),
		folder_test(without_ours_all_are_taken),
		folder_test(a_longer_release_is_another),
		folder_test(links_count_where_they_lead_to_a_module),
		cmocka_unit_test(options_are_read_as_modprobe_does),
		folder_test(modprobe_folders_hide_each_other_and_links_stay_in_the_root),
		folder_test(firmware_is_looked_for_where_the_kernel_looks),
		folder_test(a_kernel_is_found_in_every_shape),
		folder_test(a_symvers_file_is_a_kernel_of_its_own),
		folder_test(a_configuration_that_leads_nowhere_is_skipped),
		folder_test(several_kernels_want_a_choice),
	};

	return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
