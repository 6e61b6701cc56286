"""Jobs: one file runs the storage server and the training, on this machine or a cluster.

    job = sluice.jobs.spec.load("job.yaml")
    record = sluice.jobs.engines.find("local").submit(job, sluice.jobs.store.Store())

The program offload_job does the same from a shell; docs/JOBS.md describes the file.  The modules
import each other relatively and nothing else of the package, as an install without the Python
package has them in share/sluice.
"""


class JobError(Exception):
    """A job that cannot be read, submitted or controlled; its text says what to change."""
