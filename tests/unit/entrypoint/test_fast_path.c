/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/roles.h"

#define FINGERPRINT GPU_STATE_FOLDER "/gpu.fingerprint"

static void load(const struct folder *folder, const char *name, unsigned char id)
{
	const unsigned char note[] = { 4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, id };
	char path[128];

	folder_module(folder, name, "0", NULL);
	(void) snprintf(path, sizeof(path), "sys/module/%s/notes/.note.gnu.build-id", name);
	folder_write(folder, path, note, sizeof(note));
}

/* A node on which a driver serves that was started with these inputs. */
static void make_node(const struct folder *folder, struct gpu *gpu)
{
	*gpu = (struct gpu){ .role = { .name = "gpu", .root_fd = folder->fd } };
	gpu->role.options.digest = "3271748789";
	(void) snprintf(gpu->role.krel, sizeof(gpu->role.krel), "6.1.0-56-amd64");
	(void) snprintf(gpu->role.image.set, sizeof(gpu->role.image.set), "abc");
	assert_int_equal(strv_push(&gpu->role.driver_modules, "nvidia"), 0);
	assert_int_equal(strv_push(&gpu->role.driver_modules, "nvidia_uvm"), 0);
	assert_int_equal(strv_push(&gpu->role.driver_modules, "nvidia_peermem"), 0);
	log_prepare(&gpu->role.log, folder->fd, "gpu", GPU_STATE_FOLDER);
	folder_subfolder(folder, GPU_STATE_FOLDER);
	folder_subfolder(folder, "etc/modprobe.d");
	folder_write_text(folder, "proc/sys/kernel/random/boot_id", "boot-1\n");
	folder_write_text(folder, PARAMETERS_PATH, "options nvidia a=1\n");
	load(folder, "nvidia", 0xaa);
	load(folder, "nvidia_uvm", 0xbb);
}

static void forget(struct gpu *gpu)
{
	strv_free(&gpu->role.driver_modules);
	strv_free(&gpu->fast_path.modules);
	log_close(&gpu->role.log);
}

static void serve(struct gpu *gpu)
{
	struct action action = { .role = &gpu->role };

	assert_int_equal(fast_path_recognise(&action), 0);
	assert_int_equal(fast_path_remember(&action), 0);
}

static bool is_kept(struct gpu *gpu)
{
	struct action action = { .role = &gpu->role };

	assert_int_equal(fast_path_recognise(&action), 0);
	return gpu->keep;
}

static bool has_state(const struct gpu *gpu)
{
	return fs_exists(gpu->role.root_fd, CONTRACT_DRIVER_STATE);
}

static void a_first_start_is_a_full_one_and_the_next_is_fast(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *digest = NULL;
	_cleanup_free_ char *parameters = NULL;
	struct gpu gpu;

	make_node(folder, &gpu);
	assert_false(is_kept(&gpu));
	serve(&gpu);
	digest = folder_read_text(folder, CONTRACT_DRIVER_STATE);
	assert_string_equal(digest, "3271748789");
	/* A fresh container. */
	assert_int_equal(unlinkat(folder->fd, PARAMETERS_PATH, 0), 0);
	assert_true(is_kept(&gpu));
	assert_true(has_state(&gpu));
	assert_true(gpu.fast_path.parameters);
	parameters = folder_read_text(folder, PARAMETERS_PATH);
	assert_string_equal(parameters, "options nvidia a=1\n");
	forget(&gpu);
}

static void earlier_parameters_are_other_ones_of_the_same_modules(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *earlier = NULL;
	struct gpu gpu;

	make_node(folder, &gpu);
	assert_null(fast_path_earlier_parameters(&gpu.role));
	folder_write_text(folder, PARAMETERS_PATH, "# abc\noptions nvidia a=1\n");
	serve(&gpu);
	assert_null(fast_path_earlier_parameters(&gpu.role));
	folder_write_text(folder, PARAMETERS_PATH, "# abc\n");
	earlier = fast_path_earlier_parameters(&gpu.role);
	assert_string_equal(earlier, "# abc\noptions nvidia a=1\n");
	folder_write_text(folder, PARAMETERS_PATH, "# abcd\n");
	assert_null(fast_path_earlier_parameters(&gpu.role));
	forget(&gpu);
}

static void expect_parameters(const struct folder *folder, const char *wanted)
{
	_cleanup_free_ char *text = folder_read_text(folder, PARAMETERS_PATH);

	assert_string_equal(text, wanted);
}

static void refused_parameters_are_not_tried_again(void **state)
{
	static const char earlier[] = "# abc\noptions nvidia a=1\n";
	static const char refused[] = "# abc\noptions nvidia a=2\n";
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv why = { 0 };
	struct worker worker = { .fd = -1 };
	struct action action = { .worker = &worker };
	struct error error;
	struct gpu gpu;

	make_node(folder, &gpu);
	action.role = &gpu.role;
	folder_write_text(folder, PARAMETERS_PATH, earlier);
	serve(&gpu);
	folder_write_text(folder, PARAMETERS_PATH, refused);
	fast_path_note_refused(&gpu.role);
	assert_int_equal(fast_path_avoid_refused(&action), 0);
	expect_parameters(folder, refused); /* no list says that they were */
	assert_int_equal(strv_push(&why, "nvidia: the kernel refused it"), 0);
	assert_int_equal(role_list_write(&gpu.role, ROLE_REFUSED_LIST, &why, &error), 0);
	assert_int_equal(fast_path_avoid_refused(&action), 0);
	expect_parameters(folder, earlier);
	fast_path_forget_refused(&gpu.role);
	strv_free(&why);
	assert_int_equal(role_list_read(&gpu.role, ROLE_REFUSED_LIST, &why), 0);
	/* Other ones are tried, and forget the refused ones when they are taken. */
	folder_write_text(folder, PARAMETERS_PATH, "# abc\n");
	assert_int_equal(fast_path_avoid_refused(&action), 0);
	expect_parameters(folder, "# abc\n");
	strv_free(&why);
	assert_int_equal(role_list_read(&gpu.role, ROLE_REFUSED_LIST, &why), 0);
	fast_path_forget_refused(&gpu.role);
	strv_free(&why);
	assert_int_equal(role_list_read(&gpu.role, ROLE_REFUSED_LIST, &why), -ENOENT);
	forget(&gpu);
}

static void each_input_makes_a_full_start(void **state)
{
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	serve(&gpu);
	assert_true(is_kept(&gpu));
	gpu.role.options.digest = "7";
	assert_false(is_kept(&gpu));
	assert_false(has_state(&gpu));
	gpu.role.options.digest = "3271748789";
	assert_true(is_kept(&gpu)); /* what is loaded did not change meanwhile */
	gpu.role.options.drm = true;
	assert_false(is_kept(&gpu));
	gpu.role.options.drm = false;
	folder_write_text(folder, CONTRACT_MODULE_CONF "/nvidia.conf", "a=2");
	assert_false(is_kept(&gpu));
	serve(&gpu);
	assert_true(is_kept(&gpu));
	folder_write_text(folder, CONTRACT_MODULE_CONF "/nvidia.conf", "a=3");
	assert_false(is_kept(&gpu));
	folder_write_text(folder, CONTRACT_MODULE_CONF "/nvidia.conf", "a=2");
	folder_write_text(folder, CONTRACT_MODULE_CONF "/README", "not a conf");
	assert_true(is_kept(&gpu));
	gpu.role.krel[0] = '5';
	assert_false(is_kept(&gpu));
	gpu.role.krel[0] = '6';
	gpu.role.image.set[0] = 'b';
	assert_false(is_kept(&gpu));
	gpu.role.image.set[0] = 'a';
	assert_true(is_kept(&gpu));
	folder_write_text(folder, "proc/sys/kernel/random/boot_id", "boot-2\n");
	assert_false(is_kept(&gpu));
	forget(&gpu);
}

static void another_ofed_makes_a_full_start(void **state)
{
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	gpu.role.options.rdma = true;
	gpu.role.options.host_ofed = true;
	load(folder, "ib_uverbs", 0xdd);
	serve(&gpu);
	assert_true(is_kept(&gpu));
	load(folder, "ib_uverbs", 0xde);
	assert_false(is_kept(&gpu));
	forget(&gpu);
}

static void every_module_has_to_be_the_one_that_was_loaded(void **state)
{
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	serve(&gpu);
	assert_true(is_kept(&gpu));
	load(folder, "nvidia_uvm", 0xbc); /* another build */
	assert_false(is_kept(&gpu));
	load(folder, "nvidia_uvm", 0xbb);
	assert_true(is_kept(&gpu));
	assert_int_equal(fs_remove_tree(folder->fd, "sys/module/nvidia_uvm"), 0);
	assert_false(is_kept(&gpu));
	forget(&gpu);
}

static void peermem_that_followed_ofed_makes_no_full_start(void **state)
{
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	load(folder, "nvidia_peermem", 0xcc);
	serve(&gpu);
	assert_int_equal(renameat(folder->fd, "sys/module/nvidia_peermem", folder->fd, "old"), 0);
	load(folder, "nvidia_peermem", 0xcc);
	assert_true(is_kept(&gpu));
	forget(&gpu);
}

static void the_same_build_loaded_anew_is_another_load(void **state)
{
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	serve(&gpu);
	/* A folder made while the old one is still there has another number. */
	assert_int_equal(renameat(folder->fd, "sys/module/nvidia_uvm", folder->fd, "old"), 0);
	load(folder, "nvidia_uvm", 0xbb);
	assert_false(is_kept(&gpu));
	forget(&gpu);
}

static void an_image_that_does_not_know_its_set_is_never_kept(void **state)
{
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	gpu.role.image.set[0] = '\0';
	serve(&gpu);
	assert_false(is_kept(&gpu));
	forget(&gpu);
}

static void damaged_fingerprints_are_not_believed(void **state)
{
	static const char *const texts[] = { "", "digest=3271748789\n", "module=\n",
		"module=../x 1 2\n", "\n\n\n" };
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		folder_write_text(folder, FINGERPRINT, texts[i]);
		assert_false(is_kept(&gpu));
	}
	forget(&gpu);
}

static void files_stay_as_long_as_the_driver_does(void **state)
{
	const struct folder *folder = *state;
	struct action action;
	struct gpu gpu;

	make_node(folder, &gpu);
	serve(&gpu);
	action = (struct action){ .role = &gpu.role };
	assert_int_equal(fast_path_forget_gone(&action), 0);
	assert_true(has_state(&gpu) && fs_exists(folder->fd, FINGERPRINT));
	assert_int_equal(fs_remove_tree(folder->fd, "sys/module/nvidia"), 0);
	assert_int_equal(fast_path_forget_gone(&action), 0);
	assert_false(has_state(&gpu) || fs_exists(folder->fd, FINGERPRINT));
	forget(&gpu);
}

static void without_a_digest_there_is_no_state(void **state)
{
	const struct folder *folder = *state;
	struct gpu gpu;

	make_node(folder, &gpu);
	gpu.role.options.digest = "";
	serve(&gpu);
	assert_false(has_state(&gpu));
	assert_true(is_kept(&gpu));
	forget(&gpu);
}

static void what_changes_under_a_running_driver_takes_its_state_away(void **state)
{
	const struct folder *folder = *state;
	uint64_t never = EVENTS_NEVER;
	struct error error;
	struct gpu gpu;

	make_node(folder, &gpu);
	assert_int_equal(events_open(&gpu.role.events, &error), 0);
	serve(&gpu);
	fast_path_watch(&gpu.role, 0, &never);
	assert_true(has_state(&gpu));
	folder_write_text(folder, CONTRACT_MODULE_CONF "/nvidia.conf", "a=2");
	fast_path_watch(&gpu.role, EVENT_PID, &never);
	assert_true(has_state(&gpu)); /* nothing of ours happened */
	fast_path_watch(&gpu.role, EVENT_FILE, &never);
	assert_false(has_state(&gpu));
	assert_int_equal(unlinkat(folder->fd, CONTRACT_MODULE_CONF "/nvidia.conf", 0), 0);
	fast_path_watch(&gpu.role, EVENT_FILE, &never);
	assert_true(has_state(&gpu));
	load(folder, "nvidia", 0xab);
	fast_path_watch(&gpu.role, EVENT_KERNEL, &never);
	assert_false(has_state(&gpu));
	assert_int_equal(never, EVENTS_NEVER);
	events_close(&gpu.role.events);
	forget(&gpu);
}

static void peermem_may_come_and_go(void **state)
{
	const struct folder *folder = *state;
	uint64_t never = EVENTS_NEVER;
	struct error error;
	struct gpu gpu;

	make_node(folder, &gpu);
	load(folder, "nvidia_peermem", 0xcc);
	assert_int_equal(events_open(&gpu.role.events, &error), 0);
	serve(&gpu);
	assert_int_equal(fs_remove_tree(folder->fd, "sys/module/nvidia_peermem"), 0);
	fast_path_watch(&gpu.role, EVENT_KERNEL, &never);
	assert_true(has_state(&gpu));
	events_close(&gpu.role.events);
	forget(&gpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_first_start_is_a_full_one_and_the_next_is_fast),
		folder_test(each_input_makes_a_full_start),
		folder_test(another_ofed_makes_a_full_start),
		folder_test(every_module_has_to_be_the_one_that_was_loaded),
		folder_test(peermem_that_followed_ofed_makes_no_full_start),
		folder_test(the_same_build_loaded_anew_is_another_load),
		folder_test(an_image_that_does_not_know_its_set_is_never_kept),
		folder_test(earlier_parameters_are_other_ones_of_the_same_modules),
		folder_test(refused_parameters_are_not_tried_again),
		folder_test(damaged_fingerprints_are_not_believed),
		folder_test(files_stay_as_long_as_the_driver_does),
		folder_test(without_a_digest_there_is_no_state),
		folder_test(what_changes_under_a_running_driver_takes_its_state_away),
		folder_test(peermem_may_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
