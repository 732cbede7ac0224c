/* SPDX-License-Identifier: Apache-2.0 */
/* The packages of a kernel, and others that a build needs, in lists that are open. */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "common/arch.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/repo/package.h"
#include "kernels/resolve/resolve.h"

/* A package and the list that it is in. */
struct found {
	const struct index *index;
	const struct package *package;
};

struct found_list {
	struct found *items;
	size_t count;
};

/* State of a resolution. */
struct resolution {
	const struct index *indexes; /* those whose result is not 0 are skipped */
	size_t count;
	const struct resolve_request *request;
	const struct catalogue *os;
	struct lock lock;
	struct trace *trace;
	const struct index *home;     /* the list that has the headers; NULL: none has */
	const struct package *anchor; /* the headers, whose version and source all else goes by */
	struct found_list headers;    /* all that were taken */
};

/* ---- finding packages */

static void found_list_free(struct found_list *list)
{
	free(list->items);
	*list = (struct found_list){ 0 };
}

static void append(
	struct found_list *list, const struct index *index, const struct package *package)
{
	list->items = xreallocarray(list->items, list->count + 1, sizeof(*list->items));
	list->items[list->count++] = (struct found){ .index = index, .package = package };
}

bool resolve_has_tools(const struct catalogue *os, const struct resolve_request *request)
{
	return os->kernel.tools.count && request->machine &&
	       strcmp(request->machine, request->arch) != 0;
}

static bool is_for(const struct package *package, const char *arch)
{
	const char *own = package->architecture;

	return strcmp(own, arch) == 0 || strcmp(own, arch_debian(arch)) == 0 ||
	       strcmp(own, "all") == 0 || strcmp(own, "noarch") == 0;
}

/* How long the version is without ".<number>" at its end. */
static size_t length_without_counter(const char *version)
{
	const char *dot = strrchr(version, '.');

	if (!dot || !isdigit((unsigned char) dot[1]) ||
		dot[1 + strspn(dot + 1, "0123456789")] != '\0')
		return strlen(version);
	return (size_t) (dot - version);
}

/* Has the package this version, or with the catalogue's build_counter this one and a counter? */
static bool version_fits(const struct catalogue *os, const char *version, const char *wanted)
{
	const char *own = version_without_epoch(version);
	size_t length;

	if (!os->kernel.build_counter)
		return strcmp(own, wanted) == 0;
	length = length_without_counter(own);
	return length == strlen(wanted) && strncmp(own, wanted, length) == 0 && own[length];
}

/* Are the versions the same, where the catalogue wants it without the build counter? */
static bool is_same_build(const struct catalogue *os, const char *a, const char *b)
{
	size_t left, right;

	if (version_compare(a, b, false) == 0)
		return true;
	if (!os->kernel.build_counter)
		return false;
	a = version_without_epoch(a);
	b = version_without_epoch(b);
	left = length_without_counter(a);
	right = length_without_counter(b);
	/* One of them may be a Requires, which has no counter. */
	return (left == right && strncmp(a, b, left) == 0) ||
	       (strlen(a) == right && strncmp(a, b, right) == 0) ||
	       (strlen(b) == left && strncmp(a, b, left) == 0);
}

static bool has_prefix(const struct strv *prefixes, const char *name)
{
	for (size_t i = 0; i < prefixes->count; i++)
		if (strncmp(name, prefixes->items[i], strlen(prefixes->items[i])) == 0)
			return true;
	return false;
}

/* Appends the packages with this name, and with this version unless it is NULL. */
static void match_name(const struct resolution *resolution, const char *name, const char *version,
	struct found_list *list)
{
	bool is_tool = resolve_has_tools(resolution->os, resolution->request) &&
		       has_prefix(&resolution->os->kernel.tools, name);
	const char *arch = is_tool ? resolution->request->machine : resolution->request->arch;

	for (size_t i = 0; i < resolution->count; i++) {
		const struct index *index = &resolution->indexes[i];
		const struct package *package = index->result == 0 ? index_find(index, name) : NULL;
		const struct package *end = index->packages + index->count;

		if (index->request->for_tools != is_tool)
			continue;
		for (; package && package < end && strcmp(package->name, name) == 0; package++)
			if (is_for(package, arch) &&
				(!version ||
					version_fits(resolution->os, package->version, version)))
				append(list, index, package);
	}
}

/* Does the package provide "<pattern> = krel"? */
static bool provides(const struct package *package, const char *pattern, const char *krel)
{
	_cleanup_(relation_free) struct relation relation = { 0 };
	const char *cursor = package->provides;

	/* This alone excludes most packages. */
	if (!strstr(cursor, krel))
		return false;
	while (relation_next(&cursor, &relation))
		if (strcmp(relation.version, krel) == 0 && fnmatch(pattern, relation.name, 0) == 0)
			return true;
	return false;
}

static void match_provides(
	const struct resolution *resolution, const char *pattern, struct found_list *list)
{
	for (size_t i = 0; i < resolution->count; i++) {
		const struct index *index = &resolution->indexes[i];

		if (index->request->for_tools)
			continue;
		for (size_t j = 0; index->result == 0 && j < index->count; j++) {
			const struct package *package = &index->packages[j];

			if (is_for(package, resolution->request->arch) &&
				provides(package, pattern, resolution->request->krel))
				append(list, index, package);
		}
	}
}

static int compare_found(const void *a, const void *b, void *home)
{
	const struct found *left = a;
	const struct found *right = b;
	int difference = version_compare(right->package->version, left->package->version,
		left->index->request->repository->kind == REPOSITORY_RPM_MD);

	if (difference || left->index == right->index)
		return difference;
	if (left->index == home || right->index == home)
		return left->index == home ? -1 : 1;
	return left->index < right->index ? -1 : 1;
}

/* Newest first; of one version those of the headers' list first, then in the order of the lists. */
static void sort(const struct resolution *resolution, struct found_list *list)
{
	if (list->count > 1)
		qsort_r(list->items, list->count, sizeof(*list->items), compare_found,
			(void *) (uintptr_t) resolution->home);
}

/*
 * All packages that a word of the rules' headers or modules means, sorted; of one with alternatives
 * ("a|b"), those of the first that any list has.
 */
static void match_word(
	const struct resolution *resolution, const char *word, struct found_list *list)
{
	_cleanup_strv_ struct strv alternatives = { 0 };
	const char *krel = resolution->request->krel;

	xstrv_split(&alternatives, word, "|");
	for (size_t i = 0; i < alternatives.count && list->count == 0; i++) {
		_cleanup_free_ char *text =
			catalogue_expand(resolution->os, alternatives.items[i], krel);
		_cleanup_free_ char *version = NULL;
		_cleanup_free_ char *flavour = NULL;

		switch (resolution->os->kernel.match) {
		case MATCH_NAME:
			match_name(resolution, text, NULL, list);
			break;
		case MATCH_PROVIDES:
			match_provides(resolution, text, list);
			break;
		case MATCH_VERSION:
			catalogue_split_krel(resolution->os, krel, &version, &flavour);
			match_name(resolution, text, version, list);
			break;
		}
	}
	sort(resolution, list);
}

/* Describes what the word means for this kernel, for messages; the caller frees it. */
static char *describe_word(const struct resolution *resolution, const char *word)
{
	const struct catalogue *os = resolution->os;
	const char *krel = resolution->request->krel;
	_cleanup_free_ char *text = catalogue_expand(os, word, krel);
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *flavour = NULL;

	catalogue_split_krel(os, krel, &version, &flavour);
	if (os->kernel.match == MATCH_PROVIDES)
		return xasprintf("package that provides %s = %s", text, krel);
	if (os->kernel.match == MATCH_VERSION)
		return xasprintf("package %s of version %s%s", text, version,
			os->kernel.build_counter ? ".*" : "");
	for (char *bar = strchr(text, '|'); bar; bar = strchr(bar, '|'))
		*bar = '/';
	return xasprintf("package %s", text);
}

/* ---- the lock */

/* Adds it, with its repository; one that is in the lock already is not added again. */
static void take(struct resolution *resolution, const struct found *found, const char *purpose)
{
	const struct package *package = found->package;
	const struct index *index = found->index;
	const struct repository *repository = index->request->repository;
	const char *path = strncmp(package->path, "./", 2) == 0 ? package->path + 2 : package->path;
	struct lock_package locked;
	struct lock_repository list;

	if (lock_find_name(&resolution->lock, package->name))
		return;
	if (strcmp(purpose, LOCK_HEADERS) == 0)
		append(&resolution->headers, index, package);
	locked = (struct lock_package){
		.name = xstrdup(package->name),
		.version = xstrdup(package->version),
		.architecture = xstrdup(package->architecture),
		.purpose = xstrdup(purpose),
		.repository = xstrdup(repository->name),
		.url = xasprintf("%s/%s", index->request->url, path),
		.sha256 = xstrdup(package->sha256),
		.size_bytes = package->size_bytes,
	};
	lock_add(&resolution->lock, &locked);
	list = (struct lock_repository){
		.name = xstrdup(repository->name),
		.url = xstrdup(index->request->url),
		.suite = xstrdup(repository->suite ? repository->suite : ""),
		.release_sha256 = xstrdup(index->release_sha256 ? index->release_sha256 : ""),
		.date = xstrdup(index->date ? index->date : ""),
		.signer = xstrdup(index->signer ? index->signer : ""),
	};
	lock_add_repository(&resolution->lock, &list);
}

static void lock_begin(struct resolution *resolution)
{
	lock_free(&resolution->lock);
	found_list_free(&resolution->headers);
	resolution->lock = (struct lock){
		.krel = xstrdup(resolution->request->krel),
		.os = xstrdup(resolution->os->os),
		.arch = xstrdup(resolution->request->arch),
		.compiler = xstrdup(""),
		.compiler_evidence = xstrdup(""),
	};
}

/* ---- headers and what they depend on */

/*
 * Adds what a word of the rules means, of each name the newest; of "a|b" the first that is there
 * in the version that is wanted. With MATCH_NAME the version is not in the name: then it is to be
 * that of the headers, or with @any_version the newest. False: nothing was added.
 */
static bool add_word(
	struct resolution *resolution, const char *word, const char *purpose, bool any_version)
{
	bool by_name = resolution->os->kernel.match == MATCH_NAME;
	_cleanup_strv_ struct strv alternatives = { 0 };
	bool added = false;

	xstrv_split(&alternatives, word, "|");
	for (size_t i = 0; i < alternatives.count && !added; i++) {
		_cleanup_(found_list_free) struct found_list list = { 0 };

		match_word(resolution, alternatives.items[i], &list);
		for (size_t j = 0; j < list.count; j++) {
			const struct found *found = &list.items[j];

			if (by_name && !any_version && resolution->anchor &&
				version_compare(found->package->version,
					resolution->anchor->version, false) != 0)
				continue;
			take(resolution, found, purpose);
			added = true;
		}
	}
	return added;
}

static int no_word(const struct resolution *resolution, const char *word, struct error *error)
{
	_cleanup_free_ char *description = describe_word(resolution, word);

	return error_set(error, -ENODATA, "kernel %s: no %s in the lists of %s",
		resolution->request->krel, description, resolution->os->os);
}

/* Adds what each word means. -ENODATA when a word means nothing. */
static int add_words(struct resolution *resolution, const struct strv *words, const char *purpose,
	bool any_version, struct error *error)
{
	for (size_t i = 0; i < words->count; i++)
		if (!add_word(resolution, words->items[i], purpose, any_version))
			return no_word(resolution, words->items[i], error);
	return 0;
}

/*
 * Is the package made from the headers' own source? If the catalogue matches packages by version,
 * the same build is enough: SUSE's kernel-devel comes from another source than
 * kernel-default-devel.
 */
static bool belongs(const struct resolution *resolution, const struct package *package)
{
	const struct package *anchor = resolution->anchor;

	return strcmp(package->source, anchor->source) == 0 ||
	       (resolution->os->kernel.match == MATCH_VERSION &&
		       is_same_build(resolution->os, package->version, anchor->version));
}

static const struct found *find_version(
	const struct resolution *resolution, const struct found_list *list, const char *version)
{
	for (size_t i = 0; i < list->count; i++)
		if (is_same_build(resolution->os, list->items[i].package->version, version))
			return &list->items[i];
	return NULL;
}

/*
 * Adds a dependency where it belongs to the headers, in the version that is asked for, else that of
 * the headers, else the newest: of the list that has the headers where it has any. False: no list
 * has it.
 */
static bool follow(struct resolution *resolution, const struct relation *relation)
{
	_cleanup_(found_list_free) struct found_list list = { 0 };
	const struct found *found = NULL;

	match_name(resolution, relation->name, NULL, &list);
	if (list.count == 0)
		return false;
	sort(resolution, &list);
	if (strcmp(relation->sign, "=") == 0)
		found = find_version(resolution, &list, relation->version);
	if (!found)
		found = find_version(resolution, &list, resolution->anchor->version);
	for (size_t i = 0; i < list.count && !found; i++)
		if (list.items[i].index == resolution->home)
			found = &list.items[i];
	if (!found)
		found = &list.items[0];
	if (belongs(resolution, found->package))
		take(resolution, found, LOCK_HEADERS);
	return true;
}

/* Adds the packages of the headers' own source that @package depends on. */
static int walk_one(
	struct resolution *resolution, const struct package *package, struct error *error)
{
	_cleanup_(relation_free) struct relation relation = { 0 };
	_cleanup_free_ char *missing = NULL; /* none of its alternatives was there yet */
	const char *cursor = package->depends;

	for (;;) {
		bool more = relation_next(&cursor, &relation);

		if (missing && (!more || !relation.alternative))
			return error_set(error, -ENODATA,
				"kernel %s: %s %s depends on %s, which no list has",
				resolution->request->krel, package->name, package->version,
				missing);
		if (!more)
			return 0;
		if (!has_prefix(&resolution->os->kernel.follow, relation.name) ||
			(relation.alternative && !missing))
			continue;
		free(TAKE_PTR(missing));
		if (!follow(resolution, &relation))
			missing = xstrdup(relation.name);
	}
}

/* ---- the compiler */

char *resolve_compiler_name(const char *package)
{
	static const char *const families[] = { "gcc-", "clang-" };

	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		size_t length = strlen(families[i]);
		size_t digits;

		if (strncmp(package, families[i], length) != 0)
			continue;
		digits = strspn(package + length, "0123456789");
		if (digits && (!package[length + digits] || package[length + digits] == '-'))
			return xstrndup(package, length + digits);
	}
	return NULL;
}

/* The first compiler that a package's Depends names, with that package; or NULL. */
static char *compiler_in(const char *depends, char **ret_package)
{
	_cleanup_(relation_free) struct relation relation = { 0 };

	while (relation_next(&depends, &relation)) {
		char *name = resolve_compiler_name(relation.name);

		if (name) {
			*ret_package = TAKE_PTR(relation.name);
			return name;
		}
	}
	return NULL;
}

/* Takes both texts over. True when there is a compiler. */
static bool set_compiler(struct resolution *resolution, char *name, char *evidence)
{
	free(resolution->lock.compiler);
	free(resolution->lock.compiler_evidence);
	resolution->lock.compiler = name;
	resolution->lock.compiler_evidence = evidence;
	return true;
}

/*
 * "linux-compiler-gcc-12-x86", on which headers depend, holds nothing; its Depends, or else its
 * name, names the compiler.
 */
static bool compiler_from_prefix(struct resolution *resolution, const struct package *headers)
{
	_cleanup_(relation_free) struct relation relation = { 0 };
	const char *prefix = resolution->os->kernel.compiler_prefix;
	const char *cursor = headers->depends;

	while (*prefix && relation_next(&cursor, &relation)) {
		_cleanup_(found_list_free) struct found_list list = { 0 };
		_cleanup_free_ char *package = NULL;
		const char *name = relation.name;
		char *compiler = NULL;

		if (strncmp(name, prefix, strlen(prefix)) != 0)
			continue;
		match_name(resolution, name, NULL, &list);
		sort(resolution, &list);
		for (size_t i = 0; i < list.count && !compiler; i++)
			compiler = compiler_in(list.items[i].package->depends, &package);
		if (compiler)
			return set_compiler(resolution, compiler,
				xasprintf("%s %s depends on %s, which depends on %s", headers->name,
					headers->version, name, package));
		compiler = resolve_compiler_name(name + strlen(prefix));
		if (compiler)
			return set_compiler(resolution, compiler,
				xasprintf("%s %s depends on %s, whose name says so", headers->name,
					headers->version, name));
	}
	return false;
}

/*
 * A package that the headers depend on names the compiler, or the catalogue does. Where nothing
 * names it, it is "", and the tree's own configuration decides.
 */
static void find_compiler(struct resolution *resolution)
{
	const struct found_list *headers = &resolution->headers;
	const struct catalogue *os = resolution->os;

	for (size_t i = 0; i < headers->count; i++)
		if (compiler_from_prefix(resolution, headers->items[i].package))
			return;
	for (size_t i = 0; i < headers->count; i++) {
		const struct package *package = headers->items[i].package;
		_cleanup_free_ char *name = NULL;
		char *compiler = compiler_in(package->depends, &name);

		if (compiler) {
			(void) set_compiler(resolution, compiler,
				xasprintf("%s %s depends on %s", package->name, package->version,
					name));
			return;
		}
	}
	(void) set_compiler(resolution, xstrdup(os->kernel.compiler),
		xasprintf(*os->kernel.compiler
				  ? "the catalogue of %s, because no package names it"
				  : "not named by a package or the catalogue of %s; taken from the "
				    "kernel tree's configuration",
			os->os));
}

/* ---- the kernel */

enum strictness {
	SAME_BUILD,      /* modules of the version that the headers have */
	ANY_BUILD,       /* or of another */
	WITHOUT_MODULES, /* or none: modules can be compiled against headers alone */
};

static int add_modules(
	struct resolution *resolution, enum strictness strictness, struct error *error)
{
	const struct kernel_rules *rules = &resolution->os->kernel;
	int r;

	if (resolution->request->has_modules)
		return 0;
	r = add_words(resolution, &rules->modules, LOCK_MODULES, strictness != SAME_BUILD, error);
	if (r < 0 && strictness == WITHOUT_MODULES) {
		trace_add(resolution->trace, TRACE_ABSENT, "", "", "its own modules: %s",
			error->text);
		return 0;
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < rules->modules_optional.count; i++)
		(void) add_word(resolution, rules->modules_optional.items[i], LOCK_MODULES, false);
	return 0;
}

/* All packages of the kernel, by one of the headers packages that could be its. */
static int try_anchor(struct resolution *resolution, const struct found *anchor,
	enum strictness strictness, struct error *error)
{
	int r;

	lock_begin(resolution);
	resolution->home = anchor->index;
	resolution->anchor = anchor->package;
	take(resolution, anchor, LOCK_HEADERS);
	r = add_words(resolution, &resolution->os->kernel.headers, LOCK_HEADERS,
		strictness != SAME_BUILD, error);
	/* The list grows on the way; no package is in it twice. */
	for (size_t i = 0; i < resolution->headers.count && r == 0; i++)
		r = walk_one(resolution, resolution->headers.items[i].package, error);
	if (r < 0)
		return r;
	find_compiler(resolution);
	return add_modules(resolution, strictness, error);
}

/* The archives' turn comes when the others were asked already. */
static bool is_noted(const struct trace *trace, const char *repository)
{
	for (size_t i = 0; i < trace->count; i++)
		if (strcmp(trace->entries[i].repository, repository) == 0)
			return true;
	return false;
}

static void note_lists(const struct resolution *resolution, const struct found_list *anchors)
{
	_cleanup_free_ char *description =
		describe_word(resolution, resolution->os->kernel.headers.items[0]);

	for (size_t i = 0; i < resolution->count; i++) {
		const struct index *index = &resolution->indexes[i];
		const char *name = index->request->repository->name;
		const struct package *newest = NULL;

		if (index->result < 0 || index->request->for_tools ||
			is_noted(resolution->trace, name))
			continue;
		for (size_t j = 0; j < anchors->count && !newest; j++)
			if (anchors->items[j].index == index)
				newest = anchors->items[j].package;
		if (newest)
			trace_add(resolution->trace, TRACE_FOUND, name, index->request->url,
				"%s %s", newest->name, newest->version);
		else
			trace_add(resolution->trace, TRACE_ABSENT, name, index->request->url,
				"no %s among the %llu packages of its list", description,
				(unsigned long long) index->listed);
	}
}

/*
 * Adds the headers of the newest build of the kernel all of whose packages are there, with what
 * belongs to them, its modules, and the compiler. Modules may be lacking: they are then in no list.
 */
static int add_kernel(struct resolution *resolution, struct error *error)
{
	const char *word = resolution->os->kernel.headers.items[0];
	_cleanup_(found_list_free) struct found_list anchors = { 0 };
	struct error first = { 0 };

	if (resolution->request->has_headers)
		return add_modules(resolution, WITHOUT_MODULES, error);
	match_word(resolution, word, &anchors);
	note_lists(resolution, &anchors);
	if (anchors.count == 0)
		return no_word(resolution, word, error);
	for (size_t i = 0; i < anchors.count; i++)
		if (try_anchor(resolution, &anchors.items[i], SAME_BUILD, i ? error : &first) == 0)
			return 0;
	for (int s = ANY_BUILD; s <= WITHOUT_MODULES && !resolution->request->strict; s++)
		if (try_anchor(resolution, &anchors.items[0], (enum strictness) s, error) == 0)
			return 0;
	return error_set(error, -ENODATA, "%s", first.text);
}

/* ---- packages that a build needs beside the kernel's: driver sources, and what belongs to them */

char *resolve_upstream(const char *version)
{
	const char *start = version_without_epoch(version);
	const char *dash = strrchr(start, '-');

	return dash ? xstrndup(start, (size_t) (dash - start)) : xstrdup(start);
}

/* Returns the package of the same upstream version as @model of the lock, or NULL. */
static const struct found *same_upstream(
	const struct lock_package *model, const struct found_list *list)
{
	_cleanup_free_ char *wanted = resolve_upstream(model->version);

	for (size_t i = 0; i < list->count; i++) {
		_cleanup_free_ char *upstream = resolve_upstream(list->items[i].package->version);

		if (strcmp(upstream, wanted) == 0)
			return &list->items[i];
	}
	return NULL;
}

/*
 * The newest, or with @beside_kernel that of the headers' version where there is one; of backports
 * only where no other list has any, or the kernel is from there.
 */
static const struct found *choose(
	const struct resolution *resolution, const struct found_list *list, bool beside_kernel)
{
	for (size_t i = 0; beside_kernel && resolution->anchor && i < list->count; i++)
		if (version_compare(list->items[i].package->version, resolution->anchor->version,
			    false) == 0)
			return &list->items[i];
	for (size_t i = 0; i < list->count; i++)
		if (!list->items[i].index->not_automatic ||
			list->items[i].index == resolution->home)
			return &list->items[i];
	return list->count ? &list->items[0] : NULL;
}

/* Returns 1 when there is no packaging of it that fits. */
static int add_extra(
	struct resolution *resolution, const struct resolve_extra *extra, struct error *error)
{
	_cleanup_(found_list_free) struct found_list list = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *name =
		catalogue_expand(resolution->os, extra->name, resolution->request->krel);
	const struct lock_package *model = NULL;
	const struct found *found;

	xstrv_split(&names, name, "|");
	for (size_t i = 0; i < names.count; i++)
		match_name(resolution, names.items[i], NULL, &list);
	sort(resolution, &list);
	if (extra->same_upstream_as)
		model = lock_find_name(&resolution->lock, extra->same_upstream_as);
	found = model ? same_upstream(model, &list)
		      : choose(resolution, &list, extra->beside_kernel);
	if (model && !found && !extra->optional)
		return 1;
	if (found)
		take(resolution, found, extra->purpose);
	if (found || extra->optional)
		return 0;
	(void) error_set(error, -ENOENT,
		"%s: the package for %s is not in the lists of %s that could be read", name,
		extra->purpose, resolution->os->os);
	(void) error_try(error, -ENOENT, "fetch newer lists: --refresh");
	return error_try(error, -ENOENT, "give a source tree or a tarball instead");
}

static void drop_purpose(struct lock *lock, const char *purpose)
{
	size_t kept = 0;

	for (size_t i = 0; i < lock->count; i++) {
		if (strcmp(lock->packages[i].purpose, purpose) == 0)
			lock_package_free(&lock->packages[i]);
		else
			lock->packages[kept++] = lock->packages[i];
	}
	lock->count = kept;
}

static void note_tools(const struct resolution *resolution)
{
	for (size_t i = 0; i < resolution->headers.count; i++) {
		const struct found *found = &resolution->headers.items[i];
		const struct index_request *request = found->index->request;

		if (request->for_tools)
			trace_add(resolution->trace, TRACE_FOUND, request->repository->name,
				request->url, "%s %s for %s: the programs that compiling runs",
				found->package->name, found->package->version, request->arch);
	}
}

static void resolution_free(struct resolution *resolution)
{
	lock_free(&resolution->lock);
	found_list_free(&resolution->headers);
}

int resolve_in(const struct index *indexes, size_t count, const struct resolve_request *request,
	struct lock *ret, struct trace *trace, struct error *error)
{
	_cleanup_(resolution_free) struct resolution resolution = {
		.indexes = indexes,
		.count = count,
		.request = request,
		.os = request->os,
		.trace = trace,
	};
	const char *dropped = NULL;
	int r;

	lock_begin(&resolution);
	r = add_kernel(&resolution, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < request->extra_count; i++) {
		const struct resolve_extra *extra = &request->extras[i];

		if (dropped && strcmp(extra->purpose, dropped) == 0)
			continue;
		r = add_extra(&resolution, extra, error);
		if (r < 0)
			return r;
		if (r > 0) {
			drop_purpose(&resolution.lock, extra->purpose);
			dropped = extra->purpose;
		}
	}
	note_tools(&resolution);
	*ret = resolution.lock;
	resolution.lock = (struct lock){ 0 };
	return 0;
}
