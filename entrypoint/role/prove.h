/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof on the node, before anything is unloaded or loaded: will the kernel that runs take
 * the modules that the role is about to load, and what they depend on? docs/verify.md has what
 * becomes of each verdict.
 */
#pragma once

#include "entrypoint/role/role.h"
#include "module/elf.h"
#include "module/proof.h"
#include "module/running.h"

/* Describes an OFED; written by the NIC container that loaded it (rdma/ofed.h). */
struct fingerprint {
	char exporter[64];                /* the module that exports the peer-memory interface */
	char build_id[BUILD_ID_HEX_SIZE]; /* of that module, as loaded */
	uint32_t crc;                     /* of CONTRACT_PEER_REGISTER; 0: no MODVERSIONS */
	char version[64];                 /* for messages; "" by older ones */
	struct strv builds; /* "name build-id" of all of its image that is loaded; none by older
			       ones */
};

/* The OFED that nvidia-peermem is bound to. Freed by the proof. */
struct prove_peer {
	bool is_known; /* of the module that is loaded now: the next */
	struct fingerprint ofed;
	char version[64];    /* for messages, or "unknown" */
	struct strv symvers; /* where it shows what its modules export */
};

/*
 * STEP_WORKER: proves these modules with their dependencies; those of them that are loaded and stay
 * are part of the kernel. The first @required must be in the image; others that it lacks are
 * skipped.
 */
int prove_modules(struct action *action, const char *const *modules, size_t count, size_t required);

/* Modules of some tree, and what will have made room for them. */
struct prove_request {
	const char *prefix; /* as loader_open() has it: "" for the image, "/host" for the host's */
	const struct strv *modules;
	const struct strv *gone; /* loaded now, and gone by then; NULL: none */
	bool is_start;           /* of what the start loads: reported as its proof, not as a note */
	bool over_image;         /* the host's, over the image's driver instead of their own */
};

/*
 * In a worker: will these modules of that tree, with their dependencies, load? 0: yes, or with
 * nothing to go before them, perhaps. -ENOENT: the tree lacks one. The verdict is a note.
 */
int prove_tree(struct action *action, const struct prove_request *request);

/* Modules that go for the image's, and are to be loaded again on those. */
struct prove_return {
	const struct strv *load;  /* of the image: what will be there by then */
	const struct strv *gone;  /* as in prove_request */
	const struct strv *names; /* of gone: those to judge, of the image where it has one */
};

/*
 * In a worker: which of them will not load again, or perhaps not? Appends "name: why" to @lost. A
 * failure is one of looking. A kernel without MODVERSIONS takes a module of the host's that was
 * built for another core than the image's, and crashes: that one counts as lost.
 */
int prove_comes_back(struct action *action, const struct prove_return *question, struct strv *lost);

/* Does this nvidia-peermem ask for the peer-memory interface? One built without OFED loads, and
 * does nothing: it is refused. */
bool prove_is_bound(const struct elf_module *module);
int prove_refuse_unbound(struct action *action);

/* The facts that a verdict is based on; separate from prove_modules() for the unit tests. */
struct judgement {
	const struct proof_set *set;
	const struct running *running;
	const char *krel;
	const char *ofed_version; /* that peermem was bound to, or "" */
	const char *ofed_loaded;  /* the version of the OFED that is there */
	bool replacing; /* a working driver would have to go first: doubt is a refusal then */
};

/* 0: go on, @text is the report. Negative: do not, for *ret_reason and @text. */
int prove_judge(const struct judgement *judgement, enum reason *ret_reason, struct error *text);
