/* SPDX-License-Identifier: Apache-2.0 */
extern void ib_register_peer_memory_client(void);
extern void ib_unregister_peer_memory_client(void);
