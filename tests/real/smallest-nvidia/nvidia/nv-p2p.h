/* SPDX-License-Identifier: Apache-2.0 */
int nvidia_p2p_get_pages(void);
