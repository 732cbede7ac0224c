# SPDX-License-Identifier: GPL-2.0
obj-$(CONFIG_INFINIBAND) += core/
obj-$(CONFIG_MLX5_INFINIBAND) += hw/mlx5/
obj-$(CONFIG_INFINIBAND_IPOIB) += ulp/ipoib/
