#ifndef SLUICE_LEND_SWITCH_TUNING_H
#define SLUICE_LEND_SWITCH_TUNING_H

/* ns, chosen and not swept.  RETRY: until a worker that did not start is started again.  Half: twice the log
 * lines; twice: free memory waits 10 s.  END: in which workers may end by themselves.  Half: training's counts
 * may be lost; twice: one that hangs delays the end by 10 s.  KILLED: in which a killed one ends.  Half: zombies
 * stay; twice: one that hangs costs 2 s.  WORK: to take or answer a request.  Half: --aside may need it; twice:
 * a worker that hangs costs 2 minutes. */
#define SWITCH_RETRY_NS UINT64_C(5000000000)
#define SWITCH_END_NS UINT64_C(5000000000)
#define SWITCH_KILLED_NS UINT64_C(1000000000)
#define SWITCH_WORK_NS UINT64_C(60000000000)

#endif
