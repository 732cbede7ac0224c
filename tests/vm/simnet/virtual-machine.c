/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a PCI function through vfio-pci as a virtual machine monitor does, says "open", and keeps
 * it until it is killed.
 *
 *   virtual-machine GROUP 0000:01:10.4
 *
 * Source: Documentation/driver-api/vfio.rst.
 */
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int open_function(const char *group, const char *function)
{
	char path[64];
	int container_fd = open("/dev/vfio/vfio", O_RDWR);
	int group_fd;

	(void) snprintf(path, sizeof(path), "/dev/vfio/%s", group);
	group_fd = open(path, O_RDWR);
	if (container_fd < 0 || group_fd < 0 ||
		ioctl(group_fd, VFIO_GROUP_SET_CONTAINER, &container_fd) < 0 ||
		ioctl(container_fd, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU) < 0)
		return -1;
	return ioctl(group_fd, VFIO_GROUP_GET_DEVICE_FD, function);
}

int main(int argc, char **argv)
{
	if (argc != 3 || open_function(argv[1], argv[2]) < 0) {
		perror("virtual-machine");
		return 1;
	}
	(void) puts("open");
	(void) fflush(stdout);
	for (;;)
		(void) pause();
}
