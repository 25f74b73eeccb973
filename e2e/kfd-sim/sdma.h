/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The packet executor of the SDMA engines. It knows packets and a GPU address space and nothing else, so that command
 * submissions and user-mode queues can both drive it.
 */
#ifndef SIM_SDMA_H
#define SIM_SDMA_H

#include "sim.h"

#define SIM_SDMA_MAX_PACKET 13		/* dwords, without the data of WRITE and the padding of NOP */

struct sim_sdma {
	struct sim_vm *vm;
	u32 family;			/* decides the encodings */
	void *arg;			/* for the callbacks; each of them may be NULL */
	bool (*stop)(struct sim_sdma *s);		/* asked between packets */
	void (*pause)(struct sim_sdma *s);		/* a POLL is not yet true: sleep a moment */
	void (*trap)(struct sim_sdma *s, u32 id);	/* TRAP: an interrupt with this id */
	void (*touch)(struct sim_sdma *s, u64 va, u64 len, bool write);	/* before each access to data */
	u64 (*clock)(struct sim_sdma *s);		/* GPU clock counter for TIMESTAMP; 0 without it */
	/* results, added up */
	u64 bytes, copies, packets, faults;
};

/* Dwords of the packet with this header, without what follows a WRITE; -EINVAL for an unknown opcode. */
int sim_sdma_fixed_len(const struct sim_sdma *s, u32 header);
/*
 * Executes the packet at `va` of the address space, of which `avail` dwords may be read. Returns the dwords consumed,
 * -EAGAIN when a POLL is not yet true (come back with the same va), -EINVAL for an unknown or cut packet, -EFAULT when
 * the packet itself cannot be read. Faults of the data are counted in s->faults and do not stop the engine.
 */
int sim_sdma_step(struct sim_sdma *s, u64 va, u32 avail);
/* Executes `ndw` dwords from `va` on. 0, -EINVAL, -EFAULT as above, -ECANCELED when stop() said so;
 * -EAGAIN at a POLL when there is no pause(). */
int sim_sdma_run(struct sim_sdma *s, u64 va, u32 ndw);

#endif
