/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every path, variable and file name that an operator defines: here and nowhere else.
 * Sources: NVIDIA gpu-operator (manifests/state-driver/0500_daemonset.yaml, v26.7), its
 * k8s-driver-manager, Mellanox network-operator (manifests/state-ofed-driver, v26.7).
 * Paths have no leading slash: they are opened relative to a root descriptor.
 */
#pragma once

/* GPU operator: mounted at the same place on the host, Bidirectional. */
#define CONTRACT_NVIDIA_RUN "run/nvidia"
/* Every GPU operand looks here for libraries, programs and devices. */
#define CONTRACT_DRIVER_ROOT "run/nvidia/driver"
/* Single instance: flock and pid; the driver manager deletes it. */
#define CONTRACT_GPU_PID_FILE "run/nvidia/nvidia-driver.pid"
#define CONTRACT_VALIDATIONS  "run/nvidia/validations"
/* "NotReady" or "Ready", without a newline: read by the startup probe since v26.7. */
#define CONTRACT_DAEMONS_STATUS "run/nvidia/validations/.driver-daemons-status"
/* Written by the startup probe; a crash leaves it stale, so the init removes it first thing. */
#define CONTRACT_DRIVER_CTR_READY "run/nvidia/validations/.driver-ctr-ready"
/* Names the kernel's first firmware folder; bind-mounted writable into the GPU container. */
#define CONTRACT_FIRMWARE_PATH       "sys/module/firmware_class/parameters/path"
#define CONTRACT_FIRMWARE_PATH_VALUE "/run/nvidia/driver/lib/firmware"
/*
 * That folder. Until the driver root is mounted over it, it is a plain folder of the host, which
 * the operator also mounts over the container's own /lib/firmware.
 */
#define CONTRACT_DRIVER_FIRMWARE "run/nvidia/driver/lib/firmware"

/* One file a key of the operator's kernelModuleConfig: <module>.conf, "name=value" words. */
#define CONTRACT_MODULE_CONF "drivers"

/* Network operator: mounted at the same place on the host, Bidirectional in the NIC container. */
#define CONTRACT_OFED_RUN "run/mellanox/drivers"
/*
 * OFED is loaded and serves. Its readers, the GPU operator's pods too, ask whether it is there; the
 * stock container's is empty, ours lists what of the network did not come back.
 */
#define CONTRACT_OFED_READY "run/mellanox/drivers/.driver-ready"
#define CONTRACT_OFED_LOCK  "run/mellanox/drivers/.lock"
/* The NIC container's /usr/src, bind-mounted: headers and symvers for nvidia-peermem. */
#define CONTRACT_OFED_SOURCES "run/mellanox/drivers/usr/src"
/* The container's folder that is mounted there. */
#define CONTRACT_SOURCES "/usr/src"
/* The host's lib/modules is visible below: a mount of the NIC container; hostPID of the GPU pod. */
#define CONTRACT_NIC_HOST_ROOT "host"
#define CONTRACT_GPU_HOST_ROOT "proc/1/root"

/*
 * The content of DRIVER_CONFIG_DIGEST with which the running driver was started. If it equals the
 * pod's and nvidia is loaded, the driver manager evicts no pod and unloads nothing (it trims white
 * space).
 */
#define CONTRACT_DRIVER_STATE "run/nvidia/nvidia-driver.state"

/* Environment of the GPU driver pod. */
#define CONTRACT_ENV_DIGEST         "DRIVER_CONFIG_DIGEST"
#define CONTRACT_ENV_GDS            "GDS_ENABLED"
#define CONTRACT_ENV_GDRCOPY        "GDRCOPY_ENABLED"
#define CONTRACT_ENV_RDMA           "GPU_DIRECT_RDMA_ENABLED"
#define CONTRACT_ENV_HOST_OFED      "USE_HOST_MOFED"
#define CONTRACT_ENV_DRIVER_TYPE    "DRIVER_TYPE"
#define CONTRACT_ENV_LICENSE_SERVER "VGPU_LICENSE_SERVER_TYPE"
#define CONTRACT_ENV_VGPU_UNCHECKED "DISABLE_VGPU_VERSION_CHECK"
/* Licence files of a vGPU guest, where the operator mounts them. */
#define CONTRACT_GRIDD_CONF    "drivers/gridd.conf"
#define CONTRACT_LICENSE_TOKEN "drivers/ClientConfigToken"

/* Environment of the NIC driver pod (Mellanox/doca-driver-build, entrypoint/internal/config). */
#define CONTRACT_ENV_RESTORE            "RESTORE_DRIVER_ON_POD_TERMINATION"
#define CONTRACT_ENV_UNLOAD_STORAGE     "UNLOAD_STORAGE_MODULES"
#define CONTRACT_ENV_UNLOAD_THIRD_PARTY "UNLOAD_THIRD_PARTY_RDMA_MODULES"
#define CONTRACT_ENV_IFNAMES            "CREATE_IFNAMES_UDEV"
#define CONTRACT_ENV_NFSRDMA            "ENABLE_NFSRDMA"
#define CONTRACT_ENV_DTK                "DTK_OCP_DRIVER_BUILD"
#define CONTRACT_ENV_DEBUG              "ENTRYPOINT_DEBUG"
#define CONTRACT_ENV_STORAGE            "STORAGE_MODULES"
#define CONTRACT_ENV_THIRD_PARTY        "THIRD_PARTY_RDMA_MODULES"
#define CONTRACT_ENV_AUXILIARY          "MLX5_AUXILIARY_MODULES"
#define CONTRACT_ENV_BLACKLIST          "OFED_BLACKLIST_MODULES"
#define CONTRACT_ENV_BLACKLIST_FILE     "OFED_BLACKLIST_MODULES_FILE"
#define CONTRACT_ENV_READY_FILE         "DRIVER_READY_PATH"
#define CONTRACT_ENV_LOCK_FILE          "LOCK_FILE_PATH"
#define CONTRACT_ENV_DRIVERS_MOUNT      "MLX_DRIVERS_MOUNT"
#define CONTRACT_ENV_SOURCES            "SHARED_KERNEL_HEADERS_DIR"
#define CONTRACT_ENV_UDEV_RULES         "MLX_UDEV_RULES_FILE"
#define CONTRACT_ENV_INVENTORY          "NVIDIA_NIC_DRIVERS_INVENTORY_PATH"
#define CONTRACT_ENV_DTK_FOLDER         "DTK_OCP_NIC_SHARED_DIR"
#define CONTRACT_ENV_BIND_DELAY         "BIND_DELAY_SEC"
#define CONTRACT_ENV_BUILD_FLAGS        "APPEND_DRIVER_BUILD_FLAGS"
#define CONTRACT_ENV_DTK_VERSION        "DTK_OCP_COMPILED_DRIVER_VER"
#define CONTRACT_ENV_DTK_START          "DTK_OCP_START_COMPILE_FLAG"
#define CONTRACT_ENV_DTK_DONE           "DTK_OCP_DONE_COMPILE_FLAG"
/* The stock container's defaults for variables that are not set. */
#define CONTRACT_NIC_UDEV_RULES     "host/etc/udev/rules.d/77-mlnx-net-names.rules"
#define CONTRACT_NIC_BLACKLIST_FILE "host/etc/modprobe.d/blacklist-ofed-modules.conf"
#define CONTRACT_NIC_BIND_SECONDS   4
#define CONTRACT_NIC_STORAGE        "ib_iser ib_isert ib_srp ib_srpt nvme_rdma nvmet_rdma rpcrdma xprtrdma"
#define CONTRACT_NIC_THIRD_PARTY                                                                   \
	"bnxt_re efa erdma iw_cxgb4 hfi1 hns_roce ionic_rdma irdma ib_qib mana_ib ocrdma qedr "    \
	"rdma_rxe siw vmw_pvrdma"
#define CONTRACT_NIC_AUXILIARY "mlx5_vdpa mlx5_fwctl mlx5_dpll"
#define CONTRACT_NIC_BLACKLIST                                                                     \
	"mlx5_core:mlx5_ib:ib_umad:ib_uverbs:ib_ipoib:rdma_cm:rdma_ucm:ib_core:ib_cm"
/* terminationGracePeriodSeconds of the DaemonSet, unless its owner gives another number. */
#define CONTRACT_NIC_GRACE_MS (300 * 1000)

/* The peer-memory interface that nvidia-peermem needs from OFED. */
#define CONTRACT_PEER_REGISTER "ib_register_peer_memory_client"

/* PCI vendor ids (pci.ids). */
#define CONTRACT_PCI_NVIDIA   0x10de
#define CONTRACT_PCI_MELLANOX 0x15b3
