"""Options of Flink 2.3 that penstock rejects: it lacks them, and they would change a job."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple


class Refusal(NamedTuple):
    """An option that is an error, and the reason.

    Attributes:
        keys: Its key, and older ones that Flink accepts.
        why: Why it is rejected, and what to do instead.
        harmless: The values without effect: Flink's default, and penstock's behaviour; if there
            are none, any value is rejected.
    """

    keys: tuple[str, ...]
    why: str
    harmless: tuple[str, ...] = ()


_NO_CLASS: Final = "it names a Java class, which penstock cannot run: leave it out"
_NO_KERBEROS: Final = (
    "penstock does not authenticate with Kerberos, so the job would reach protected services as "
    "another user or not at all: leave it out"
)
_OWN_CERTIFICATES: Final = (
    "each job has its own certificate, which the driver creates, so no store is read: set "
    "security.ssl.internal.enabled alone"
)
_PEM: Final = "stores of the REST interface are PEM files, which have no password and no type"
_FIXED_PARALLELISM: Final = (
    "the parallelism of a BATCH job does not follow from its data: set parallelism.default, or "
    "call set_parallelism of operators"
)
_ADAPTIVE_BATCH: Final = "jobmanager.adaptive-batch-scheduler"

REFUSALS: Final = (
    # Programs and their classes.
    Refusal(
        ("user.artifacts.artifact-list",),
        "penstock fetches no artifacts: ship files with add_python_file, add_python_archive or "
        "register_cached_file",
    ),
    Refusal(("execution.job-listeners",), _NO_CLASS),
    Refusal(("execution.job-status-changed-listeners",), _NO_CLASS),
    Refusal(("jobmanager.failure-enrichers",), _NO_CLASS),
    Refusal(("execution.batch.adaptive.stream-graph-optimization.strategies",), _NO_CLASS),
    Refusal(
        ("shuffle-service-factory.class",),
        _NO_CLASS,
        ("org.apache.flink.runtime.io.network.NettyShuffleServiceFactory",),
    ),
    Refusal(("state.backend.rocksdb.options-factory",), f"{_NO_CLASS}, and set RocksDB's options"),
    Refusal(
        ("pipeline.serialization-config",), f"{_NO_CLASS}, and declare types by Types", ("[]",)
    ),
    Refusal(
        ("pipeline.generic-types",),
        "functions and streams without a declared type pass values of any type: declare the types "
        "of all of them instead",
        ("true",),
    ),
    Refusal(
        ("execution.program-config.enabled", "execution.allow-client-job-configurations"),
        "a program may set any option of its jobs: check the program's options when you build it",
        ("true",),
    ),
    Refusal(
        ("execution.submit-failed-job-on-application-error",),
        "a program that fails before it runs a job leaves no failed job: check its exit code",
        ("false",),
    ),
    Refusal(
        ("execution.shutdown-on-application-finish",),
        "the cluster of a program ends with it: run the program in a session instead",
        ("true",),
    ),
    Refusal(
        ("$internal.pipeline.job-id", "$internal.application.id"),
        "each run of a program gives its jobs new ids: set execution.state-recovery.path, or "
        "high-availability.cluster-id, to continue with the state of another run",
    ),
    # Behaviour of a job.
    Refusal(
        ("scheduler-mode", "jobmanager.scheduler-mode"),
        "no job takes all slots of a cluster: set jobmanager.scheduler to adaptive, and the "
        "parallelism to the maximum that you want",
    ),
    *(
        Refusal(
            (f"execution.batch.adaptive.auto-parallelism.{name}", f"{_ADAPTIVE_BATCH}.{name}"),
            _FIXED_PARALLELISM,
            harmless,
        )
        for name, harmless in (
            ("max-parallelism", ("128",)),
            ("min-parallelism", ("1",)),
            ("default-source-parallelism", ()),
            ("avg-data-volume-per-task", ("16mb", "16m")),
        )
    ),
    Refusal(
        ("execution.batch.speculative.enabled", f"{_ADAPTIVE_BATCH}.speculative.enabled"),
        "no second attempt of a slow task is started: leave it out",
        ("false",),
    ),
    Refusal(
        ("execution.batch.job-recovery.enabled",),
        "a BATCH job whose driver ends starts again from the beginning: leave it out",
        ("false",),
    ),
    Refusal(
        ("execution.sorted-inputs.enabled",),
        "in BATCH mode keyed inputs are always sorted: run the job with execution.runtime-mode "
        "STREAMING to process records as they arrive",
        ("true",),
    ),
    Refusal(
        ("execution.batch-state-backend.enabled",),
        "in BATCH mode one key is processed at a time, and its state is dropped after it: run the "
        "job with execution.runtime-mode STREAMING to keep the state of all keys",
        ("true",),
    ),
    Refusal(
        ("taskmanager.network.adaptive-partitioner.enabled",),
        "rebalance and rescale use the channels in turn, however busy they are: leave it out",
        ("false",),
    ),
    Refusal(
        ("pipeline.sources.pause-until-first-checkpoint",),
        "sources do not wait for the first checkpoint: leave it out",
        ("false",),
    ),
    Refusal(
        ("queryable-state.enable",),
        "JobClient.state and the REST interface read keyed state without it "
        "(docs/howto/read_live_state.md): leave it out",
        ("false",),
    ),
    Refusal(
        ("jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures",),
        "an adaptive job is rescaled without waiting for a checkpoint to complete by itself: leave "
        "it out",
        ("2",),
    ),
    Refusal(
        ("jobmanager.adaptive-scheduler.rescale-trigger.max-delay",),
        "an adaptive job takes the checkpoint that it is rescaled from at once: set "
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    ),
    *(
        Refusal(
            (f"slotmanager.{name}",),
            "only its parallelism limits the slots that a job requests: set that, or limit Spark's "
            "resources (spark.cores.max, spark.executor.instances)",
            harmless,
        )
        for name, harmless in (
            ("number-of-slots.max", ("2147483647",)),
            ("max-total-resource.cpu", ()),
            ("max-total-resource.memory", ()),
        )
    ),
    # Checkpoints.
    Refusal(
        ("execution.checkpointing.interval-during-backlog",),
        "no source reports that it processes a backlog, so checkpoints keep their interval: set "
        "execution.checkpointing.interval",
    ),
    Refusal(
        ("execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",),
        "each subtask writes its in-flight data to its own file: leave the option out",
        ("1", "5"),
    ),
    Refusal(
        ("execution.checkpointing.create-subdir", "state.checkpoints.create-subdir"),
        "the checkpoints of each job are in their own folder, named after the job's id: leave it "
        "out",
        ("true",),
    ),
    Refusal(
        ("execution.checkpointing.file-merging.enabled",),
        "each subtask writes its own files: leave it out",
        ("false",),
    ),
    Refusal(
        (
            "execution.state-recovery.without-channel-state.checkpoint-id",
            "execution.checkpointing.recover-without-channel-state.checkpoint-id",
        ),
        "a job that starts from an unaligned checkpoint restores the in-flight data: start it from "
        "a savepoint to omit that data",
        ("-1",),
    ),
    Refusal(
        (
            "execution.state-recovery.approximate-local-recovery",
            "execution.checkpointing.approximate-local-recovery",
        ),
        "a failed task is never restarted without its neighbours, which would lose records: leave "
        "it out",
        ("false",),
    ),
    Refusal(
        ("fs.default-scheme",),
        "a path without a scheme is a path of the machine: write complete URLs",
    ),
    Refusal(
        ("state.backend.rocksdb.memory.fixed-per-tm",),
        "the databases of one slot share memory, not those of a whole TaskExecutor: set "
        "state.backend.rocksdb.memory.fixed-per-slot",
    ),
    # Tables.
    Refusal(("table.catalog-modification.listeners",), _NO_CLASS),
    *(
        Refusal((f"table.{name}",), f"{why}: leave it out", (harmless,))
        for name, harmless, why in (
            ("sql-dialect", "default", "statements are those of Flink SQL"),
            ("column-expansion-strategy", "[]", "SELECT * names all columns"),
            ("exec.sort.default-limit", "-1", "an ORDER BY without LIMIT returns all rows"),
            (
                "exec.sink.type-length-enforcer",
                "ignore",
                "texts and bytes are written with the length that they have",
            ),
            (
                "exec.sink.nested-constraint-enforcer",
                "ignore",
                "NOT NULL is checked for columns, and not for fields within them",
            ),
            (
                "exec.source.cdc-events-duplicate",
                "false",
                "a change is read once, and not compared with those before",
            ),
            (
                "exec.deduplicate.insert-update-after-sensitive-enabled",
                "true",
                "deduplication tells the first row of a key from later ones",
            ),
            (
                "legacy-nested-row-nullability",
                "false",
                "a row within a row may be NULL, whatever its fields are",
            ),
            (
                "optimizer.non-deterministic-update.strategy",
                "ignore",
                "plans are not searched for functions whose results differ between calls",
            ),
            (
                "rtas-ctas.atomicity-enabled",
                "false",
                "CREATE TABLE AS creates the table before it has rows",
            ),
        )
    ),
    # Workers.
    Refusal(
        ("taskmanager.system-out.mode",),
        "the printed output of functions is neither dropped nor logged: leave it out",
        ("default",),
    ),
    Refusal(
        ("python.systemenv.enabled",),
        "workers have the environment variables of their host: unset those that they must not see",
        ("true",),
    ),
    # Permissions.
    *(
        Refusal((key, *older), _NO_KERBEROS)
        for key, *older in (
            ("security.kerberos.login.keytab", "security.keytab"),
            ("security.kerberos.login.principal", "security.principal"),
            ("security.kerberos.login.contexts",),
            ("security.kerberos.krb5-conf.path",),
            (
                "security.kerberos.access.hadoopFileSystems",
                "yarn.security.kerberos.additionalFileSystems",
            ),
        )
    ),
    *(
        Refusal((f"security.ssl.internal.{name}",), _OWN_CERTIFICATES)
        for name in (
            "keystore",
            "keystore-password",
            "key-password",
            "truststore",
            "truststore-password",
            "cert.fingerprint",
        )
    ),
    *(
        Refusal(
            (f"security.ssl.{name}",),
            f"{_OWN_CERTIFICATES}; the REST interface has security.ssl.rest.{name}",
        )
        for name in (
            "keystore",
            "keystore-password",
            "key-password",
            "truststore",
            "truststore-password",
        )
    ),
    *(
        Refusal((f"security.ssl.{name}",), why, harmless)
        for name, why, harmless in (
            ("internal.keystore-type", _OWN_CERTIFICATES, ("pkcs12",)),
            ("internal.truststore-type", _OWN_CERTIFICATES, ("pkcs12",)),
            ("rest.keystore-password", _PEM, ()),
            ("rest.truststore-password", _PEM, ()),
            ("rest.keystore-type", _PEM, ("pkcs12", "pem")),
            ("rest.truststore-type", _PEM, ("pkcs12", "pem")),
        )
    ),
    Refusal(
        ("security.ssl.rest.cert.fingerprint",),
        "clients of the REST interface are identified by the signer of their certificate: set "
        "security.ssl.rest.authentication-enabled and security.ssl.rest.truststore",
    ),
    Refusal(
        ("security.ssl.protocol",),
        "internal connections use TLS 1.3, and the REST interface what Python allows: leave it out",
        ("tlsv1.2", "tlsv1.3"),
    ),
    Refusal(
        ("security.ssl.algorithms",),
        "internal connections use the ciphers of TLS 1.3: leave it out",
        ("tls_ecdhe_rsa_with_aes_128_gcm_sha256,tls_ecdhe_rsa_with_aes_256_gcm_sha384",),
    ),
    *(
        Refusal((f"security.{name}.factory.classes",), _NO_CLASS, (harmless,))
        for name, harmless in (
            (
                "context",
                "org.apache.flink.runtime.security.contexts.hadoopsecuritycontextfactory;"
                "org.apache.flink.runtime.security.contexts.noopsecuritycontextfactory",
            ),
            (
                "module",
                "org.apache.flink.runtime.security.modules.hadoopmodulefactory;"
                "org.apache.flink.runtime.security.modules.jaasmodulefactory;"
                "org.apache.flink.runtime.security.modules.zookeepermodulefactory",
            ),
        )
    ),
    Refusal(
        ("historyserver.web.ssl.enabled",),
        "the history server speaks plain HTTP: put a proxy with TLS in front of it",
        ("false",),
    ),
    Refusal(
        ("historyserver.archive.retained-ttl",),
        "archives are kept by number, not by age: set historyserver.archive.retained-jobs",
    ),
)

_FAMILIES: Final = (
    (
        ("s3.", "s3a.", "fs.s3.", "fs.s3a."),
        "penstock reaches S3 by pyarrow, which has no such setting: docs/options/checkpoints.md "
        "lists the available ones (s3.endpoint, s3.region, s3.access-key, …)",
    ),
    (
        ("containerized.master.env.", "containerized.taskmanager.env."),
        "penstock starts no containers: set the variable where the program and its workers are "
        "started (spark.executorEnv.NAME on Spark)",
    ),
    (
        ("security.delegation.token.provider.",),
        "penstock fetches no tokens for other services: configure the credentials of their "
        "clients; for S3 set s3.access-key and s3.secret-key",
    ),
)
"""Prefixes of options that are errors, with the reasons."""


_SWITCH: Final = ".enabled"
"""Suffix of the options that turn a provider of tokens on or off."""


def refusal_of(key: str, value: str) -> str | None:
    """Return why a value of a missing option is rejected; None if it is accepted."""
    for beginnings, why in _FAMILIES:
        if key.startswith(beginnings) and not key.endswith(_SWITCH):
            return why
    refusal = _refusals().get(key)
    if refusal is None or _folded(value) in refusal.harmless:
        return None
    return refusal.why


def refused_keys() -> frozenset[str]:
    """Return the keys of the options of which some value is rejected."""
    return frozenset(_refusals())


@cache
def _refusals() -> dict[str, Refusal]:
    return {
        key: refusal._replace(harmless=tuple(map(_folded, refusal.harmless)))
        for refusal in REFUSALS
        for key in refusal.keys
    }


def _folded(value: str) -> str:
    return "".join(value.replace("'", "").split()).strip("[]").lower().replace(",org", ";org")
