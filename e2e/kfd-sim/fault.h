/* SPDX-License-Identifier: GPL-2.0 */
/* Between fault.c and debugfs.c. */
#ifndef KFD_SIM_FAULT_H
#define KFD_SIM_FAULT_H

#define SIM_POINT_LEN 48
#define SIM_MAX_FAULTS 32
#define SIM_MAX_POINTS 128

struct seq_file;

/* One line as written to debugfs "fault"; -EINVAL if it is not understood, -ENOSPC if the table is full. */
int sim_fault_command(char *text);
void sim_fault_show(struct seq_file *m);
void sim_fault_show_points(struct seq_file *m);
void sim_fault_reset_counts(void);

#endif
