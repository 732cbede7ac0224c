/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/topo/topo.h"

#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>

#include "common/json_text.h"
#include "common/text.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/topo/topo_internal.h"

/* The label's column, as in `slipway-init status`. */
#define INDENT "         "

/* ---- what a user should know, one sentence each */

static const struct {
	int bit;
	const char *key, *words;
} acs_bits[] = {
	{ PCI_ACS_RR, "request_redirect", "redirects requests" },
	{ PCI_ACS_CR, "completion_redirect", "redirects completions" },
	{ PCI_ACS_UF, "upstream_forwarding", "forwards upstream" },
};

static int find_narrow_links(
	const struct topo_function *functions, size_t count, struct strv *findings)
{
	for (size_t i = 0; i < count; i++) {
		const struct pci_link *link = &functions[i].link;
		int r;

		if (!pci_link_is_narrow(link))
			continue;
		r = strv_pushf(findings, PCI_LINK_NARROW, functions[i].path.address, link->width,
			link->width_possible);
		if (r < 0)
			return r;
	}
	return 0;
}

static int find_redirects(const struct topo *topo, struct strv *findings)
{
	for (size_t i = 0; i < topo->port_count; i++) {
		const struct topo_port *port = &topo->ports[i];
		char words[128] = "";
		int r;

		if (port->acs < 0 || !(port->acs & TOPO_ACS_REDIRECT))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(acs_bits); k++)
			if (port->acs & acs_bits[k].bit)
				(void) snprintf(words + strlen(words),
					sizeof(words) - strlen(words), "%s%s", *words ? ", " : "",
					acs_bits[k].words);
		r = strv_pushf(findings,
			"ACS of port %s %s: data between GPU and NIC goes through the host bridge; "
			"rdma_topo check (rdma-core) knows which settings are right",
			port->address, words);
		if (r < 0)
			return r;
	}
	return 0;
}

static int find_all(const struct topo *topo, struct strv *findings)
{
	int r = find_narrow_links(topo->gpus, topo->gpu_count, findings);

	if (r == 0)
		r = find_narrow_links(topo->nics, topo->nic_count, findings);
	return r == 0 ? find_redirects(topo, findings) : r;
}

/* ---- as JSON */

static void write_function(struct json *json, const struct topo_function *function)
{
	const struct pci_path *path = &function->path;
	const struct pci_link *link = &function->link;

	json_write_text(json, "address", path->address);
	json_write_text_or_null(json, "pcie_root", path->root);
	json_write_number_or_null(json, "numa_node", function->numa_node);
	json_write_number_or_null(json, "iommu_group", function->iommu_group);
	json_write_number_or_null(json, "link_width", link->width);
	json_write_number_or_null(json, "link_width_possible", link->width_possible);
	json_write_number_or_null(json, "link_speed_mts", link->speed_mts);
	json_write_number_or_null(json, "link_speed_possible_mts", link->speed_possible_mts);
	json_write_open(json, "bridges", '[');
	for (size_t i = 0; i < path->depth; i++)
		json_write_text(json, NULL, path->bridges[i]);
	json_write_close(json, ']');
}

static void write_functions(struct json *json, const struct topo *topo)
{
	json_write_open(json, "gpus", '[');
	for (size_t i = 0; i < topo->gpu_count; i++) {
		json_write_open(json, NULL, '{');
		write_function(json, &topo->gpus[i]);
		json_write_open(json, "best_nics", '[');
		for (size_t k = 0; k < topo->nic_count; k++)
			if (topo_is_best(topo, &topo->gpus[i], &topo->nics[k]))
				json_write_text(json, NULL, topo->nics[k].path.address);
		json_write_close(json, ']');
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
	json_write_open(json, "nics", '[');
	for (size_t i = 0; i < topo->nic_count; i++) {
		json_write_open(json, NULL, '{');
		write_function(json, &topo->nics[i]);
		json_write_list(json, "rdma_devices", &topo->nics[i].rdma_devices);
		json_write_list(json, "interfaces", &topo->nics[i].interfaces);
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
}

static int write_port(void *context, const char *address)
{
	json_write_text(context, NULL, address);
	return 0;
}

static void write_pair(
	struct json *json, const struct topo_function *gpu, const struct topo_function *nic)
{
	size_t common;
	enum topo_relation relation = topo_relate(gpu, nic, &common);

	json_write_open(json, NULL, '{');
	json_write_text(json, "gpu", gpu->path.address);
	json_write_text(json, "nic", nic->path.address);
	json_write_text(json, "relation", topo_relation_name(relation));
	json_write_text_or_null(
		json, "common_bridge", common ? gpu->path.bridges[common - 1] : NULL);
	json_write_open(json, "ports", '[');
	(void) topo_each_port(gpu, nic, write_port, json);
	json_write_close(json, ']');
	json_write_close(json, '}');
}

static void write_all(const struct topo *topo, const struct strv *findings)
{
	struct json json = { .file = stdout };

	json_write_open(&json, NULL, '{');
	json_write_boolean(&json, "flat", topo_is_flat(topo));
	write_functions(&json, topo);
	json_write_open(&json, "pairs", '[');
	for (size_t i = 0; i < topo->gpu_count; i++)
		for (size_t k = 0; k < topo->nic_count; k++)
			write_pair(&json, &topo->gpus[i], &topo->nics[k]);
	json_write_close(&json, ']');
	json_write_open(&json, "ports", '[');
	for (size_t i = 0; i < topo->port_count; i++) {
		const struct topo_port *port = &topo->ports[i];

		json_write_open(&json, NULL, '{');
		json_write_text(&json, "address", port->address);
		for (size_t k = 0; k < ARRAY_SIZE(acs_bits); k++)
			json_write_answer(&json, acs_bits[k].key,
				port->acs < 0 ? -1 : !!(port->acs & acs_bits[k].bit));
		json_write_close(&json, '}');
	}
	json_write_close(&json, ']');
	json_write_list(&json, "findings", findings);
	json_write_close(&json, '}');
	(void) putchar('\n');
}

/* ---- for people */

/* The RDMA device's, as NCCL_IB_HCA and nvidia-smi have it; else the interface's, or the address.
 */
static const char *name_of(const struct topo_function *nic)
{
	if (nic->rdma_devices.count)
		return nic->rdma_devices.items[0];
	return nic->interfaces.count ? nic->interfaces.items[0] : nic->path.address;
}

static void print_names(const struct strv *names)
{
	for (size_t i = 0; i < names->count; i++)
		text_print(stdout, " %s", names->items[i]);
}

static void print_function(const char *label, const struct topo_function *function)
{
	const struct pci_link *link = &function->link;

	text_print(stdout, "%-8s %s", label, function->path.address);
	print_names(&function->rdma_devices);
	print_names(&function->interfaces);
	if (*function->path.root)
		text_print(stdout, ", %s", function->path.root);
	if (function->numa_node >= 0)
		text_print(stdout, ", NUMA node %d", function->numa_node);
	if (function->iommu_group >= 0)
		text_print(stdout, ", IOMMU group %d", function->iommu_group);
	if (link->width > 0)
		text_print(stdout, ", x%d", link->width);
	if (pci_link_is_narrow(link))
		text_print(stdout, " of x%d", link->width_possible);
	if (link->speed_mts > 0)
		text_print(stdout, ", %g", link->speed_mts / 1e3);
	if (link->speed_mts > 0 && link->speed_mts < link->speed_possible_mts)
		text_print(stdout, " of %g", link->speed_possible_mts / 1e3);
	text_print(stdout, "%s\n", link->speed_mts > 0 ? " GT/s" : "");
}

static void print_matrix(const struct topo *topo)
{
	text_print(stdout, "%-*s", (int) strlen(INDENT) + PCI_ADDRESS_SIZE, "matrix");
	for (size_t i = 0; i < topo->nic_count; i++)
		text_print(stdout, "%s%s", i ? "  " : "", name_of(&topo->nics[i]));
	text_print(stdout, "\n");
	for (size_t i = 0; i < topo->gpu_count; i++) {
		text_print(stdout, INDENT "%-*s", PCI_ADDRESS_SIZE, topo->gpus[i].path.address);
		for (size_t k = 0; k < topo->nic_count; k++) {
			bool is_last = k + 1 == topo->nic_count;
			int width = is_last ? 0 : (int) strlen(name_of(&topo->nics[k])) + 2;
			size_t ignored;

			text_print(stdout, "%-*s", width,
				topo_relation_name(
					topo_relate(&topo->gpus[i], &topo->nics[k], &ignored)));
		}
		text_print(stdout, "\n");
	}
}

static void print_best(const struct topo *topo)
{
	for (size_t i = 0; i < topo->gpu_count; i++) {
		const struct topo_function *gpu = &topo->gpus[i];
		enum topo_relation relation = TOPO_SYS;
		size_t count = 0, ignored;

		text_print(stdout, "best     %s:", gpu->path.address);
		for (size_t k = 0; k < topo->nic_count; k++) {
			if (!topo_is_best(topo, gpu, &topo->nics[k]))
				continue;
			text_print(stdout, "%s %s", count++ ? "," : "", name_of(&topo->nics[k]));
			relation = topo_relate(gpu, &topo->nics[k], &ignored);
		}
		text_print(stdout, " (%s%s)\n", topo_relation_name(relation),
			count > 1 && count == topo->nic_count ? ", all alike" : "");
	}
}

static void print_unknown_ports(const struct topo *topo)
{
	size_t count = 0;

	for (size_t i = 0; i < topo->port_count; i++)
		if (topo->ports[i].acs < 0)
			text_print(stdout, "%s %s", count++ ? "," : INDENT "ACS not known of",
				topo->ports[i].address);
	if (count)
		text_print(stdout,
			": the kernel shows it to root alone, and in privileged containers\n");
}

static void print_all(const struct topo *topo, const struct strv *findings)
{
	bool has_pairs = topo->gpu_count && topo->nic_count;

	for (size_t i = 0; i < topo->gpu_count; i++)
		print_function("gpu", &topo->gpus[i]);
	for (size_t i = 0; i < topo->nic_count; i++)
		print_function("nic", &topo->nics[i]);
	if (!topo->gpu_count)
		text_print(stdout, "gpu      no NVIDIA GPU\n");
	if (!topo->nic_count)
		text_print(stdout,
			"nic      no Mellanox NIC, and no RDMA device with a PCI function\n");
	if (has_pairs) {
		print_matrix(topo);
		print_best(topo);
	}
	if (topo_is_flat(topo))
		text_print(stdout, INDENT
			"no PCIe topology visible: no GPU or NIC is below a bridge, as in most virtual "
			"machines; ask the host's administrator what they share\n");
	print_unknown_ports(topo);
	for (size_t i = 0; i < findings->count; i++)
		text_print(stdout, INDENT "! %s\n", findings->items[i]);
}

const char topo_usage[] =
	"usage: topo [--json]\n"
	"Shows how GPUs and NICs are connected by PCIe, and the best NIC of each GPU.\n"
	"  --json  one JSON object\n";

int topo_main(int root_fd, bool json)
{
	_cleanup_(topo_free) struct topo topo;
	_cleanup_strv_ struct strv findings = { 0 };
	int r = topo_read(root_fd, &topo);

	if (r == 0)
		r = find_all(&topo, &findings);
	if (r < 0) {
		text_print(stderr, "[%s] topo: reading /" PCI_DEVICES " failed: %s\n",
			reason_entry(REASON_INTERNAL)->code, strerror(-r));
		return reason_entry(REASON_INTERNAL)->exit_code;
	}
	if (json)
		write_all(&topo, &findings);
	else
		print_all(&topo, &findings);
	return 0;
}
