"""Each file, command and option that the Dockerfile and compose.yaml name exists.

Whether the services form a session is in integration/kafka/test_compose.py, and
`make containers` builds and starts them where Docker is.
"""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from penstock.command_line.main import main
from penstock.command_line.program_flags import check_configuration

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1))
    for line in re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text()).splitlines()
    if line and not line.startswith("#")
]
COMPOSED = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSED["services"]
OWN = {name: service for name, service in SERVICES.items() if service.get("build") == "."}
#: What `.dockerignore` lets through.
SENT = [
    line.removeprefix("!")
    for line in (ROOT / ".dockerignore").read_text().split()
    if line.startswith("!")
]


def of(instruction: str) -> list[str]:
    return [words for name, words in INSTRUCTIONS if name == instruction]


def is_sent(path: str) -> bool:
    return any(Path(path).is_relative_to(sent) for sent in SENT)


def test_the_image_has_the_files_that_it_builds_from() -> None:
    assert [path for path in SENT if not (ROOT / path).exists()] == []
    project, maturin = PROJECT["project"], PROJECT["tool"]["maturin"]
    needed = ["pyproject.toml", "Cargo.lock", "Cargo.toml", "native", "ci/build_backend.py"]
    needed += [project["readme"], *project["license-files"]]
    needed += [maturin["python-source"], maturin["manifest-path"]]
    needed += tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    assert [path for path in needed if not (ROOT / path).exists() or not is_sent(path)] == []


def test_stages_copy_from_stages_before_them() -> None:
    stages: list[str] = []
    copies = 0
    for name, words in INSTRUCTIONS:
        if name == "FROM":
            stages.append(words.partition(" AS ")[2])
        for stage in re.findall(r"--from=(\S+)", words) if name == "COPY" else ():
            copies += 1
            assert stage in stages[:-1]
    assert copies == 3


def test_wheels_are_built_for_the_python_of_the_image() -> None:
    pythons = [words.split()[0] for words in of("FROM") if words.startswith("python:")]
    assert len(pythons) == 2
    [image] = set(pythons)
    version = re.findall(r"^python:(3\.\d+)-", image)[0]
    assert f"Programming Language :: Python :: {version}" in PROJECT["project"]["classifiers"]


def test_extras_of_the_image_exist_and_are_enough_for_its_commands() -> None:
    [listed] = re.findall(r"connectors=(\S+)", " ".join(of("RUN")))
    [further] = re.findall(r"\[\$connectors,(\S+)\]", " ".join(of("RUN")))
    extras = {*listed.split(","), *further.split(",")}
    assert extras <= set(PROJECT["project"]["optional-dependencies"])
    # The dashboard, SQL over Kafka, live views, and TLS between the services.
    assert {"rest", "table", "kafka", "cli", "tls"} <= extras


def test_the_program_of_the_image_is_that_of_the_wheel() -> None:
    [entry], [arguments] = of("ENTRYPOINT"), of("CMD")
    assert yaml.safe_load(entry) == ["penstock"]
    assert "penstock" in PROJECT["project"]["scripts"]
    [command] = yaml.safe_load(arguments)
    assert command in main.list_commands(main.make_context("penstock", ["doctor"]))
    [user] = of("USER")
    assert re.search(rf"useradd .*\b{user}\b", " ".join(of("RUN")))


def here(service: dict, word: str) -> str:
    """Return a word of a command with the path that a volume has on this machine."""
    for volume in service.get("volumes", ()):
        source, target, _ = volume.split(":")
        assert (ROOT / source).is_dir()
        word = word.replace(f"={target}/", f"={ROOT / source}/")
    return word


@pytest.mark.parametrize("name", OWN)
def test_commands_of_services_have_these_flags(name: str) -> None:
    command, *words = [here(OWN[name], word) for word in OWN[name]["command"]]
    root = main.make_context("penstock", [command, *words])
    found = main.get_command(root, command)
    assert found is not None
    context = found.make_context(command, words, parent=root)  # fails at an unknown flag
    options = context.params.get("options") or ()
    check_configuration(dict(option.partition("=")[::2] for option in options))
    for path in context.params.get("files") or ():
        assert Path(path).is_file()


def test_services_name_each_other() -> None:
    assert set(OWN) == {"jobmanager", "taskexecutor", "example"}
    port = next(
        word.partition("=")[2] for word in OWN["jobmanager"]["command"] if "--port=" in word
    )
    for name in ("taskexecutor", "example"):
        assert any(word.endswith(f"=jobmanager:{port}") for word in OWN[name]["command"])
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        if "volumes" in service:
            assert [here(service, word) for word in service["command"]] != service["command"]
    statements = (ROOT / "examples" / "compose" / "shop.sql").read_text()
    [listener] = re.findall(r"PLAINTEXT://(kafka:\d+)", str(SERVICES["kafka"]["environment"]))
    assert set(re.findall(r"bootstrap.servers' = '(\S+)'", statements)) == {listener}
    assert SERVICES["kafka"]["healthcheck"]["test"].count(listener.replace(":", "/")) == 1
    [published] = OWN["jobmanager"]["ports"]
    rest = published.rpartition(":")[2]
    assert f"-Drest.bind-port={rest}" in OWN["jobmanager"]["command"]


def test_variables_of_the_services_are_read() -> None:
    [variable] = {name for service in OWN.values() for name in service["environment"]}
    sources = (ROOT / "python" / "penstock").rglob("*.py")
    assert any(f'"{variable}"' in path.read_text() for path in sources)


def test_lines_of_the_documents_are_those_of_the_file() -> None:
    header = [line.strip("# ") for line in (ROOT / "compose.yaml").read_text().splitlines()[:5]]
    page = (ROOT / "docs" / "sessions.md").read_text()
    for line in header:
        if shlex.split(line)[:1] in (["docker"], ["export"]):
            assert line.partition("  #")[0].strip() in page
