/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/pci.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/elf.h"

#define KREL     "6.1.0-1-test"
#define OURS     "lib/modules/" KREL "/updates/nvidia/nvidia-peermem.ko"
#define VARIANTS "usr/lib/slipway/kernels/" KREL "/peermem"
#define PEER_CRC 0x8e6daf35 /* of fixtures/peer.c */

static const struct role *role_of(const struct folder *folder, struct role *role)
{
	*role = (struct role){ .name = "gpu", .root_fd = folder->fd };
	(void) snprintf(role->krel, sizeof(role->krel), "%s", KREL);
	return role;
}

static void copy_fixture(const struct folder *folder, const char *fixture, const char *to)
{
	char path[512];
	char data[65536];
	ssize_t size;
	int fd;

	(void) snprintf(path, sizeof(path), "%s/%s", FIXTURES, fixture);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	size = read(fd, data, sizeof(data));
	assert_true(size > 0 && (size_t) size < sizeof(data));
	(void) close(fd);
	folder_write(folder, to, data, (size_t) size);
}

static int choose(struct role *role, uint32_t crc, struct action *action)
{
	struct worker worker = { .fd = -1 };

	*action = (struct action){ .role = role, .worker = &worker };
	return peermem_choose(action, crc);
}

static void the_crc_of_the_file_is_what_it_was_built_with(void **state)
{
	const struct folder *folder = *state;
	struct role role;

	assert_int_equal(peermem_file_crc(role_of(folder, &role)), 0);
	assert_true(peermem_is_bound(&role)); /* nothing is known of a file that is not there */
	copy_fixture(folder, "peer.ko", OURS);
	assert_int_equal(peermem_file_crc(&role), PEER_CRC);
	assert_true(peermem_is_bound(&role));
	copy_fixture(folder, "unversioned.ko", OURS);
	assert_int_equal(peermem_file_crc(&role), 0);
	assert_false(peermem_is_bound(&role));
}

static void what_fits_already_stays(void **state)
{
	const struct folder *folder = *state;
	struct action action;
	struct role role;

	(void) role_of(folder, &role);
	copy_fixture(folder, "peer.ko", OURS);
	assert_int_equal(choose(&role, PEER_CRC, &action), 1);
	assert_int_equal(choose(&role, 0x1, &action), 0); /* and nothing else is there */
	assert_int_equal(peermem_file_crc(&role), PEER_CRC);
}

static void the_variant_with_the_crc_takes_its_place(void **state)
{
	const struct folder *folder = *state;
	struct action action;
	struct role role;

	(void) role_of(folder, &role);
	copy_fixture(folder, "unversioned.ko", OURS);
	copy_fixture(folder, "unversioned.ko", VARIANTS "/0/nvidia-peermem.ko");
	folder_write_text(folder, VARIANTS "/0/peermem.conf", "ofed_version=old\ncrc=\n");
	copy_fixture(folder, "peer.ko", VARIANTS "/1/nvidia-peermem.ko");
	folder_write_text(folder, VARIANTS "/1/peermem.conf",
		"ofed_version=new\nofed_exporter=ib_core\ncrc=0x8e6daf35\n");
	folder_write_text(folder, VARIANTS "/1/ofed.symvers.zst", "its list");

	assert_int_equal(choose(&role, 0x2, &action), 0);
	assert_int_equal(peermem_file_crc(&role), 0);
	assert_int_equal(choose(&role, PEER_CRC, &action), 1);
	assert_int_equal(peermem_file_crc(&role), PEER_CRC);
	assert_string_equal(role.image.ofed_version, "new");
	assert_string_equal(role.image.ofed_exporter, "ib_core");
	_cleanup_free_ char *list =
		folder_read_text(folder, "usr/lib/slipway/kernels/" KREL "/ofed.symvers.zst");
	assert_string_equal(list, "its list");
}

static void a_variant_that_cannot_be_read_is_an_error(void **state)
{
	const struct folder *folder = *state;
	struct action action;
	struct role role;

	(void) role_of(folder, &role);
	copy_fixture(folder, "unversioned.ko", OURS);
	folder_write_text(folder, VARIANTS "/0/peermem.conf", "crc=0x00000007\n");
	assert_int_equal(choose(&role, 7, &action), -ENOENT);
	assert_contains(action.error.text, OURS);
}

static void an_image_without_it_says_how_to_build_one(void **state)
{
	struct action action = { 0 };
	struct role role;

	(void) role_of(*state, &role);
	action.role = &role;
	assert_int_equal(peermem_prepare(&action), -ENOENT);
	assert_int_equal(action.reason, REASON_PEERMEM_OTHER_OFED);
	assert_contains(action.error.text, "slipway build --ofed");
	copy_fixture(*state, "peer.ko", OURS);
	assert_int_equal(peermem_prepare(&action), 0);
}

static void load(const struct folder *folder, const char *name, unsigned char id)
{
	const unsigned char note[] = { 4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, id };
	char path[128];

	folder_module(folder, name, "0\n", NULL);
	(void) snprintf(path, sizeof(path), "sys/module/%s/notes/.note.gnu.build-id", name);
	folder_write(folder, path, note, sizeof(note));
}

static void the_fingerprint_has_the_crc_before_any_list(void **state)
{
	const struct folder *folder = *state;
	struct role role;
	bool proven;

	assert_int_equal(peermem_wanted_crc(role_of(folder, &role), &proven), 0);
	assert_false(proven);
	folder_write_text(folder, CONTRACT_OFED_SOURCES "/ofa_kernel/default/Module.symvers",
		"0x00000009\tib_register_peer_memory_client\tib_uverbs\tEXPORT_SYMBOL\t\n");
	assert_int_equal(peermem_wanted_crc(&role, &proven), 9);
	assert_false(proven);
	load(folder, "ib_uverbs", 0xab);
	folder_write_text(folder, NIC_STATE_FOLDER "/ofed.fingerprint",
		"exporter=ib_uverbs\nbuild_id=ab\ncrc=0x00000008\n");
	assert_int_equal(peermem_wanted_crc(&role, &proven), 8);
	assert_true(proven);
}

static void the_hosts_list_is_the_hosts(void **state)
{
	const struct folder *folder = *state;
	struct role role;
	bool proven;

	(void) role_of(folder, &role);
	role.options.host_ofed = true;
	folder_write_text(folder, CONTRACT_OFED_SOURCES "/ofa_kernel/default/Module.symvers",
		"0x00000009\tib_register_peer_memory_client\tib_uverbs\tEXPORT_SYMBOL\t\n");
	assert_int_equal(peermem_wanted_crc(&role, &proven), 0);
	folder_write_text(folder, "proc/1/root/usr/src/ofa_kernel/default/Module.symvers",
		"0x0000000a\tib_register_peer_memory_client\tib_uverbs\tEXPORT_SYMBOL\t\n");
	assert_int_equal(peermem_wanted_crc(&role, &proven), 10);
}

static void ofed_is_up_with_flag_and_exporter(void **state)
{
	const struct folder *folder = *state;
	struct role role;

	assert_false(ofed_is_up(role_of(folder, &role)));
	folder_module(folder, "ib_uverbs", "0\n", NULL);
	assert_false(ofed_is_up(&role));
	role.options.host_ofed = true;
	assert_true(ofed_is_up(&role));
	role.options.host_ofed = false;
	folder_write_text(folder, CONTRACT_OFED_READY, "");
	assert_true(ofed_is_up(&role));
	(void) snprintf(role.image.ofed_exporter, sizeof(role.image.ofed_exporter), "ib_core");
	assert_false(ofed_is_up(&role));
}

static void a_nic_is_a_pci_function_of_mellanox(void **state)
{
	const struct folder *folder = *state;

	assert_true(pci_has_vendor(folder->fd, CONTRACT_PCI_MELLANOX)); /* the bus cannot be seen */
	folder_write_text(folder, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
	assert_false(pci_has_vendor(folder->fd, CONTRACT_PCI_MELLANOX));
	folder_write_text(folder, "sys/bus/pci/devices/0000:02:00.0/vendor", "0x15b3\n");
	assert_true(pci_has_vendor(folder->fd, CONTRACT_PCI_MELLANOX));
}

static int hold(const struct folder *folder, const char *path)
{
	int fd;

	folder_write_text(folder, path, "");
	fd = openat(folder->fd, path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	return fd;
}

static void a_request_counts_as_long_as_who_asked_lives(void **state)
{
	const struct folder *folder = *state;
	int fd;

	assert_false(peermem_is_asked_to_go(folder->fd));
	folder_write_text(folder, PEERMEM_REQUEST, "nic");
	assert_false(peermem_is_asked_to_go(folder->fd));
	fd = hold(folder, CONTRACT_OFED_LOCK);
	assert_true(peermem_is_asked_to_go(folder->fd));
	(void) close(fd);
	assert_false(peermem_is_asked_to_go(folder->fd));
	fd = hold(folder, CONTRACT_OFED_LOCK);
	peermem_allow(folder->fd);
	assert_false(peermem_is_asked_to_go(folder->fd));
	(void) close(fd);
}

static void only_references_of_no_module_are_users(void **state)
{
	const struct folder *folder = *state;
	static const char *const holders[] = { "other", NULL };

	assert_false(peermem_has_users(folder->fd));
	folder_module(folder, "nvidia_peermem", "1\n", holders);
	assert_false(peermem_has_users(folder->fd));
	folder_module(folder, "nvidia_peermem", "2\n", NULL);
	assert_true(peermem_has_users(folder->fd));
}

/* Other modules that keep OFED are reported; peermem need not go then and is not asked about. */
static void peermem_stays_where_ofed_cannot_go_either(void **state)
{
	const struct folder *folder = *state;
	static char core[] = "ib_core";
	static char *names[] = { core, NULL };
	static const struct strv going = { .items = names, .count = 1 };
	static const char *const core_holders[] = { "nvidia_peermem", "stranger", NULL };
	struct worker worker = { .fd = -1 };
	struct role role;
	struct action action = { .role = &role, .worker = &worker };

	(void) role_of(folder, &role);
	assert_int_equal(peermem_make_way(&action, &going), 0); /* it is not there */
	folder_module(folder, "nvidia_peermem", "0\n", NULL);
	folder_module(folder, "stranger", "0\n", NULL);
	folder_module(folder, "ib_core", "2\n", core_holders);
	assert_int_equal(peermem_make_way(&action, &going), -EBUSY);
	assert_int_equal(action.reason, REASON_MODULE_IN_USE);
	assert_contains(action.error.text, "stranger");
	assert_int_equal(faccessat(folder->fd, PEERMEM_REQUEST, F_OK, 0), -1);
}

#define ANSWER "it is used by a test"

/* Stands in for the follower, whose lock the test holds: this process's end is the event. */
static pid_t answer_soon(const struct folder *folder)
{
	pid_t follower = fork();

	if (follower)
		return follower;
	while (faccessat(folder->fd, PEERMEM_REQUEST, F_OK, 0) < 0)
		(void) usleep(1000);
	_exit(fs_write_atomic(folder->fd, PEERMEM_ANSWER, ANSWER, strlen(ANSWER), 0644) < 0);
}

static void the_answer_ends_the_wait(void **state)
{
	const struct folder *folder = *state;
	static const struct strv going = { 0 };
	struct worker worker = { .fd = -1 };
	struct role role;
	struct action action = { .role = &role, .worker = &worker };
	uint64_t begun_ms = clock_monotonic_ms();
	sigset_t before;
	int fd;

	(void) role_of(folder, &role);
	folder_module(folder, "nvidia_peermem", "1\n", NULL);
	fd = hold(folder, PEERMEM_LOCK);
	folder_write_text(folder, PEERMEM_ANSWER, "of an earlier request");
	assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &before), 0);
	assert_true(answer_soon(folder) > 0);
	assert_int_equal(peermem_make_way(&action, &going), -EBUSY);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
	assert_contains(action.error.text, "cannot unload it: " ANSWER);
	/* The answer is read after the limit of five seconds, too. */
	assert_true(clock_monotonic_ms() - begun_ms < 4000);
	(void) close(fd);
}

/* The probe ends the container when it fails: only where that is of use. */
static void the_probe_knows_why_peermem_is_away(void **state)
{
	const struct folder *folder = *state;
	int fd;

	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 0); /* no OFED */
	folder_module(folder, "ib_uverbs", "0\n", NULL);
	folder_write_text(folder, CONTRACT_OFED_READY, "");
	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 1); /* nvidia is not there */
	folder_module(folder, "nvidia", "0\n", NULL);
	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 0); /* OFED has just come */
	assert_int_equal(utimensat(folder->fd, CONTRACT_OFED_READY,
				 (const struct timespec[2]){ { .tv_sec = 1 }, { .tv_sec = 1 } }, 0),
		0);
	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 1);
	folder_write_text(folder, CONTRACT_DAEMONS_STATUS, "NotReady");
	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 0); /* the driver is changing */
	assert_int_equal(unlinkat(folder->fd, CONTRACT_DAEMONS_STATUS, 0), 0);
	folder_write_text(folder, PEERMEM_REQUEST, "nic");
	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 1); /* the request lapsed */
	fd = hold(folder, CONTRACT_OFED_LOCK);
	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 0); /* OFED is changing */
	(void) close(fd);
	folder_module(folder, "nvidia_peermem", "0\n", NULL);
	assert_int_equal(peermem_probe(folder->fd, NULL, NULL), 0);
}

static void a_flag_without_a_holder_of_the_lock_is_stale(void **state)
{
	const struct folder *folder = *state;
	int fd;

	folder_write_text(folder, CONTRACT_OFED_READY, "");
	assert_false(ready_flag_is_stale(folder->fd)); /* whose flag it is is not known */
	fd = hold(folder, CONTRACT_OFED_LOCK);
	assert_false(ready_flag_is_stale(folder->fd));
	(void) close(fd);
	assert_true(ready_flag_is_stale(folder->fd));
	assert_int_equal(unlinkat(folder->fd, CONTRACT_OFED_READY, 0), 0);
	assert_false(ready_flag_is_stale(folder->fd));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_crc_of_the_file_is_what_it_was_built_with),
		folder_test(what_fits_already_stays),
		folder_test(the_variant_with_the_crc_takes_its_place),
		folder_test(a_variant_that_cannot_be_read_is_an_error),
		folder_test(an_image_without_it_says_how_to_build_one),
		folder_test(the_fingerprint_has_the_crc_before_any_list),
		folder_test(the_hosts_list_is_the_hosts),
		folder_test(ofed_is_up_with_flag_and_exporter),
		folder_test(a_flag_without_a_holder_of_the_lock_is_stale),
		folder_test(a_nic_is_a_pci_function_of_mellanox),
		folder_test(a_request_counts_as_long_as_who_asked_lives),
		folder_test(only_references_of_no_module_are_users),
		folder_test(peermem_stays_where_ofed_cannot_go_either),
		folder_test(the_answer_ends_the_wait),
		folder_test(the_probe_knows_why_peermem_is_away),
	};

	return cmocka_run_group_tests_name("peermem", tests, NULL, NULL);
}
