/* SPDX-License-Identifier: Apache-2.0 */
/* Tests builds whose modules will load, will not, or of which that cannot be told. */
#include "tests/unit/support.h"

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "kernels/probe/probe.h"
#include "kernels/tool.h"
#include "module/sign.h"

#define KREL    "6.1.0-1-test"
#define LAYOUT  "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PRINTK  "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define BEHIND  "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\tDMA_BUF\n"
#define CHANGED "0x00000008\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define STARTS  "{\"image\":\"gpu\",\"programs\":2,\"starting\":2,\"libraries\":1,\"findings\":[]}"
#define LACKS                                                                                      \
	"{\"image\":\"gpu\",\"programs\":2,\"starting\":1,\"libraries\":1,\"findings\":[{\"id\":"  \
	"\"program-version\",\"weight\":\"refusal\",\"file\":\"usr/bin/nvidia-imex\",\"library\":" \
	"\"libc.so.6\",\"version\":\"GLIBC_2.38\",\"text\":\"nvidia-imex asks for GLIBC_2.38\","   \
	"\"cure\":\"give the images a newer base\"}]}"
#define PEER "0x8e6daf35\tib_register_peer_memory_client\t/b/ib_uverbs\tEXPORT_SYMBOL\t\n"

static void put_module(const struct folder *folder, const char *path)
{
	_cleanup_free_ char *data = NULL;
	size_t size = 0;

	assert_int_equal(fs_read(AT_FDCWD, FIXTURES "/peer.ko", 0, &data, &size), 0);
	folder_write(folder, path, data, size);
}

static char *below(const struct folder *folder, const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", folder->path, name) > 0);
	return path;
}

/* peer.ko with a signature of the build's key, which is in the folder. */
static void sign_module(const struct folder *folder, const struct build *build, const char *path)
{
	struct module_signer signer = { .cert = build->signing.cert, .hash = "sha256" };
	_cleanup_free_ unsigned char *cms = NULL;
	_cleanup_free_ char *name = below(folder, "ours.key");
	_cleanup_free_ char *data = NULL;
	_cleanup_free_ char *file = NULL;
	struct module_key *key = NULL;
	struct error error = { 0 };
	size_t size = 0;
	size_t cms_size = 0;

	assert_int_equal(fs_read(AT_FDCWD, FIXTURES "/peer.ko", 0, &data, &size), 0);
	assert_int_equal(module_key_open(name, NULL, &key, &error), 0);
	signer.key = key;
	assert_int_equal(module_sign(&signer, data, size, &cms, &cms_size, &error), 0);
	file = malloc(size + cms_size + MODULE_TRAILER_SIZE);
	assert_non_null(file);
	memcpy(file, data, size);
	memcpy(file + size, cms, cms_size);
	module_trailer_write(cms_size, (unsigned char *) file + size + cms_size);
	folder_write(folder, path, file, size + cms_size + MODULE_TRAILER_SIZE);
	module_key_free(&key);
}

struct proven {
	struct build build;
	const char *programs; /* of the GPU image; NULL: they start */
	char *conf;           /* PROOF_CONF */
	char *report;         /* proof.json */
};

static void proven_done(struct proven *proven)
{
	free(proven->conf);
	free(proven->report);
	module_cert_free(&proven->build.signing.cert);
	for (size_t i = 0; i < proven->build.kernel.local.count; i++) {
		probe_free(&proven->build.kernel.local.inputs[i].probe);
		free(proven->build.kernel.local.inputs[i].path);
	}
	free(proven->build.kernel.local.inputs);
	plan_close(&proven->build.plan);
	cached_free(&proven->build.kernel.tree);
	cached_free(&proven->build.kernel.modules);
	free(proven->build.kernel.lock.krel);
	kernel_record_free(&proven->build.kernel.record);
}

/* Takes @path. */
static void set_path(struct build *build, enum stage_kind kind, int of, char *path)
{
	stage_find(build, kind, of)->cached->path = path;
}

/* A kernel with these exports, and an NVIDIA set of one module, without OFED. */
static void prove(const struct folder *folder, const char *exports, struct proven *ret)
{
	struct build *build = &ret->build;
	_cleanup_free_ char *log = below(folder, "log");
	char *output = below(folder, "output"); /* freed by proven_done() */
	const struct stage_place place = { .folder = output, .log = log, .key = "" };
	struct error error = { 0 };

	build->sources[DRIVER_NVIDIA].form = SOURCE_PACKAGE;
	build->options.jobs = 1;
	build->kernel.context = &build->context;
	build->kernel.record.options[KOPT_MODULES] = 'y';
	build->kernel.lock.krel = strdup(KREL);
	build->kernel.record.krel = strdup(KREL);
	build->kernel.record.arch = strdup("x86_64");
	build->kernel.record.config_source = strdup(".config");
	build->kernel.record.vermagic = strdup("6.1.0-1-test SMP preempt mod_unload modversions ");
	build->kernel.record.vermagic_source = strdup("config");
	build->kernel.tree.path = below(folder, "kernel");
	build->kernel.modules.path = below(folder, "modules");
	build->target =
		(struct target){ .os = &build->context.os, .krel = build->kernel.lock.krel };
	plan_open(build, stage_rows, driver_rows);
	set_path(build, STAGE_SET, DRIVER_NVIDIA, below(folder, "nvidia"));
	if (build->options.sign_cert)
		set_path(build, STAGE_SIGNED, DRIVER_NVIDIA, below(folder, "nvidia-signed"));
	set_path(build, STAGE_PROOF, 0, output);
	set_path(build, STAGE_PROGRAMS, IMAGE_GPU, below(folder, "programs"));
	folder_write_text(folder, "programs/programs.json", ret->programs ? ret->programs : STARTS);
	folder_write_text(folder, "kernel/lib/modules/" KREL "/build/Module.symvers", exports);
	folder_write_text(folder, "modules/lib/modules/" KREL "/modules.builtin",
		"kernel/ib_uverbs.ko\nkernel/nvidia-core.ko\n");
	folder_write_text(folder, "nvidia/set.conf", "source=nvidia\nversion=1.0\n");
	if (build->options.sign_cert)
		sign_module(folder, build, "nvidia-signed/lib/modules/" KREL "/updates/peer.ko");
	else
		put_module(folder, "nvidia/lib/modules/" KREL "/updates/nvidia/peer.ko");
	folder_subfolder(folder, "output");
	if (proof_run(build, NULL, &place, &error) < 0)
		fail_msg("%s", error.text);
	ret->conf = folder_read_text(folder, "output/" PROOF_CONF);
	ret->report = folder_read_text(folder, "output/proof.json");
}

static void what_will_load_passes(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };
	struct error error = { 0 };

	prove(*state, LAYOUT PRINTK PEER, &proven);
	assert_contains(proven.conf, "all=holds\nall_modules=1\nall_loading=1\n");
	assert_contains(proven.conf, "gpu=holds\ngpu_modules=1\ngpu_loading=1");
	assert_contains(proven.conf, "nic=holds\nnic_modules=0\nnic_loading=0\n");
	if (proof_judge(&proven.build, &error) < 0)
		fail_msg("%s", error.text);
}

/* The verdict stays, so that a second run says it again at once; and --force is asked each time. */
static void refuses(
	struct proven *proven, enum exit_code code, const char *verdict, const char *reason)
{
	struct proof_result result;
	struct error error = { 0 };

	for (int i = 0; i < 2; i++) {
		assert_true(proof_judge(&proven->build, &error) < 0);
		assert_int_equal(proven->build.context.failure, code);
		assert_contains(error.text, KREL ": none of 1 will load, so no image is made");
		assert_contains(error.lines, reason);
	}
	proven->build.options.force = true;
	assert_int_equal(proof_judge(&proven->build, &error), 0);
	assert_int_equal(proof_read(&proven->build, "gpu", &result, &error), 0);
	assert_string_equal(result.verdict, verdict);
	assert_string_equal(result.modules, "1");
	assert_string_equal(result.loading, "0");
}

static void what_will_not_load_has_code_3(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };

	prove(*state, LAYOUT CHANGED PEER, &proven);
	refuses(&proven, EXIT_CODE_WILL_NOT_LOAD, "will-not-load", "printk");
	assert_contains(proven.report, "will not load");
}

/* All modules load, and yet no image is made. */
static void a_program_that_will_not_start_has_code_3(void **state)
{
	_cleanup_(proven_done) struct proven proven = { .programs = LACKS };
	struct error error = { 0 };

	prove(*state, LAYOUT PRINTK PEER, &proven);
	assert_contains(proven.conf, "all=will-not-start\nall_modules=1\nall_loading=1\n");
	assert_contains(proven.conf, "gpu=will-not-start\ngpu_modules=1\ngpu_loading=1\n");
	assert_contains(proven.conf, "nic=holds\n");
	assert_contains(proven.report, "\"GLIBC_2.38\"");
	assert_contains(proven.report, "\"verdict\":\"will not start\"");
	assert_true(proof_judge(&proven.build, &error) < 0);
	assert_int_equal(proven.build.context.failure, EXIT_CODE_WILL_NOT_LOAD);
	assert_contains(error.text, "some programs of the images will not start");
	assert_contains(error.lines, "first: gpu image: nvidia-imex asks for GLIBC_2.38: give the "
				     "images a newer base");
	proven.build.options.force = true;
	assert_int_equal(proof_judge(&proven.build, &error), 0);
}

static void what_cannot_be_told_has_code_4(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };

	prove(*state, LAYOUT BEHIND PEER, &proven);
	refuses(&proven, EXIT_CODE_CANNOT_TELL, "cannot-tell", "DMA_BUF");
	assert_contains(proven.report, "cannot tell");
}

static void a_damaged_verdict_is_the_caches_fault(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };
	struct error error = { 0 };

	prove(*state, LAYOUT CHANGED PEER, &proven);
	folder_write_text(*state, "output/" PROOF_CONF, "all_modules=1\n");
	assert_int_equal(proof_judge(&proven.build, &error), -EINVAL);
	assert_int_equal(proven.build.context.failure, EXIT_CODE_CACHE);
	assert_contains(error.text, PROOF_CONF);
}

/* As the kernel's own configuration says: no key was given, and nothing is signed. */
static void an_enforcing_kernel_refuses_what_is_not_signed(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };

	proven.build.kernel.record.options[KOPT_MODULE_SIG] = 'y';
	proven.build.kernel.record.options[KOPT_MODULE_SIG_FORCE] = 'y';
	prove(*state, LAYOUT PRINTK PEER, &proven);
	refuses(&proven, EXIT_CODE_WILL_NOT_LOAD, "will-not-load", "sign");
}

static void run(const struct folder *folder, const char *line)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error error = { 0 };

	assert_int_equal(strv_push(&argv, "env"), 0);
	assert_int_equal(strv_pushf(&argv, "--chdir=%s", folder->path), 0);
	assert_int_equal(strv_split(&argv, line, " "), 0);
	if (tool_run(&argv, NULL, &error) < 0)
		fail_msg("%s", error.text);
}

/* A key of the build's own. */
static void make_key(const struct folder *folder, struct proven *proven)
{
	struct error error = { 0 };

	run(folder, "openssl req -x509 -noenc -days 30 -subj /CN=ours -newkey rsa:2048 -keyout "
		    "ours.key -out ours.pem");
	proven->build.options.sign_cert = "ours.pem";
	assert_int_equal(
		module_cert_read(folder->fd, "ours.pem", &proven->build.signing.cert, &error), 0);
}

/* Makes what slipway probe collects on a node with this key. */
static void make_probe(
	const struct folder *folder, struct proven *proven, const char *enforces, const char *key)
{
	struct local_kernel *local = &proven->build.kernel.local;
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	assert_true(asprintf(&text,
			    "{\"schema\":\"slipway-probe-1\",\"kernel\":{\"release\":\"" KREL "\"},"
			    "\"security\":{\"sig_enforce\":%s,\"keys\":[{\"description\":\"Any "
			    "key: %s\"}]}}",
			    enforces, key) > 0);
	folder_write_text(folder, PROBE_FILE, text);
	run(folder, "tar -cf probe.tar " PROBE_FILE);
	local->inputs = calloc(1, sizeof(*local->inputs));
	assert_non_null(local->inputs);
	local->count = 1;
	local->inputs[0].kind = LOCAL_PROBE;
	local->inputs[0].path = below(folder, "probe.tar");
	assert_int_equal(probe_parse(text, strlen(text), &local->inputs[0].probe, &error), 0);
	proven->build.kernel.record.options[KOPT_MODULE_SIG] = 'y';
	assert_int_equal(kernel_read_node(&proven->build.kernel, &error), 0);
}

/* A good signature is of use to a node that has its key only. */
static void an_enforcing_node_has_to_have_our_key(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };

	make_key(*state, &proven);
	make_probe(*state, &proven, "true", "0123456789abcdef0123456789abcdef01234567");
	prove(*state, LAYOUT PRINTK PEER, &proven);
	refuses(&proven, EXIT_CODE_CANNOT_TELL, "cannot-tell",
		"but the key was not seen among the kernel's keys");
	assert_contains(proven.report, "\"signature-key\"");
	assert_contains(proven.report, "mokutil --import");
	assert_contains(proven.report, "CONFIG_SYSTEM_TRUSTED_KEYS");
	assert_null(strstr(proven.report, "--trust"));
}

static void a_node_that_has_our_key_takes_what_we_sign(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };
	struct error error = { 0 };
	char id[CMS_ID_HEX_SIZE];

	make_key(*state, &proven);
	module_cert_key_id(proven.build.signing.cert, id);
	make_probe(*state, &proven, "true", id);
	prove(*state, LAYOUT PRINTK PEER, &proven);
	assert_contains(proven.conf, "all=holds\n");
	assert_int_equal(proof_judge(&proven.build, &error), 0);
}

static void a_node_that_does_not_insist_needs_no_key(void **state)
{
	_cleanup_(proven_done) struct proven proven = { 0 };

	make_key(*state, &proven);
	make_probe(*state, &proven, "false", "0123456789abcdef0123456789abcdef01234567");
	prove(*state, LAYOUT PRINTK PEER, &proven);
	assert_contains(proven.conf, "all=holds\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_will_load_passes),
		folder_test(what_will_not_load_has_code_3),
		folder_test(a_program_that_will_not_start_has_code_3),
		folder_test(what_cannot_be_told_has_code_4),
		folder_test(a_damaged_verdict_is_the_caches_fault),
		folder_test(an_enforcing_kernel_refuses_what_is_not_signed),
		folder_test(an_enforcing_node_has_to_have_our_key),
		folder_test(a_node_that_has_our_key_takes_what_we_sign),
		folder_test(a_node_that_does_not_insist_needs_no_key),
	};

	return cmocka_run_group_tests_name("proof_step", tests, NULL, NULL);
}
