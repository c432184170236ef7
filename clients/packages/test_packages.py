"""Installs the packages of a release from their files, runs the program, and removes it again."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import BINARY, REPOSITORY

VERSION = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["version"]
STREAM = REPOSITORY / "fixtures/demo/upstream.sse"
UV = Path(sys.executable).with_name("uv")


def run(*command, **options):
    """Runs a command, which must succeed, and returns what it prints."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120} | options
    done = subprocess.run([str(each) for each in command], **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def one(folder, pattern):
    [found] = folder.glob(pattern)
    return found


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.suffix != ".pyc"}


def works(*program, env=None):
    """Checks an installed program, by default without any environment."""
    env = env or {}
    assert run(*program, "--version", env=env) == f"toolwire {VERSION}\n"
    rewrite = ["rewrite", "--from", "lumo"]
    with STREAM.open() as given, STREAM.open() as again:
        assert run(*program, *rewrite, stdin=given, env=env) == run(BINARY, *rewrite, stdin=again, env={})
    odd = "it's \"one\" $argument"
    refused = subprocess.run([*map(str, program), "check", "--config", odd], env=env, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"cannot read the configuration file {odd}: No such file" in refused.stderr
    assert "finish    tool_calls" in run(*program, "demo", "--once", env=env)


def test_archive(packages, place):
    with tarfile.open(one(packages, "*.tar.gz")) as tar:
        tar.extractall(place, filter="data")
    folder = one(place, f"toolwire-{VERSION}-*")
    works(folder / "toolwire")
    assert {"man/toolwire.1", "completions/_toolwire", "deploy/toolwire.service", "LICENSE-MIT"} <= files_of(folder)


def test_wheel_with_pip(packages, place):
    environment = place / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment / "bin/python"]
    before = files_of(environment)
    wheel = one(packages, "*.whl")
    run(*pip, "install", "--no-index", wheel)
    installed = files_of(environment) - before
    share = {"man/man1/toolwire-serve.1", "bash-completion/completions/toolwire", "zsh/site-functions/_toolwire"}
    assert {"bin/toolwire"} | {f"share/{name}" for name in share} <= installed
    run(*pip, "check")
    run(*pip, "install", "--no-index", "--force-reinstall", wheel)
    assert files_of(environment) - before == installed
    works(environment / "bin/toolwire")
    run(*pip, "uninstall", "--yes", "toolwire")
    assert files_of(environment) == before


def test_wheel_with_uvx(packages, place):
    wheel = one(packages, "*.whl")
    environment = {"UV_CACHE_DIR": str(place / "cache"), "UV_PYTHON": sys.executable, "HOME": "/nonexistent"}
    works(UV, "tool", "run", "--quiet", "--offline", "--from", wheel, "toolwire", env=environment)


def test_debian_package(packages, place):
    if not shutil.which("dpkg-deb"):
        pytest.skip("there is no dpkg-deb on this machine")
    package = one(packages, "*.deb")
    if os.geteuid() != 0:
        run("dpkg-deb", "--extract", package, place)
        works(place / "usr/bin/toolwire")
        return
    root = place / "root"
    (root / "var/lib/dpkg/updates").mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir()
    (root / "var/lib/dpkg/status").touch()
    # An empty root has no shell for the scripts, and not the libraries that the tested build needs.
    options = [f"--root={root}", "--force-script-chrootless", "--force-depends", "--log=/dev/null"]
    run("dpkg", *options, "--install", package)
    settings = root / "etc/toolwire/toolwire.toml"
    settings.write_text("# mine\n")
    run("dpkg", *options, "--install", package)
    assert settings.read_text() == "# mine\n"
    works(root / "usr/bin/toolwire")
    run("dpkg", *options, "--remove", "toolwire")
    assert {name for name in files_of(root) if not name.startswith("var/")} == {"etc/toolwire/toolwire.toml"}
    run("dpkg", *options, "--purge", "toolwire")
    assert not (root / "usr").exists() and not (root / "etc").exists()


def libraries(program):
    """The files that a dynamically linked program loads. The tested build is one, unlike that of the Dockerfile."""
    return re.findall(r"(/\S+) \(0x", run("ldd", program))


@pytest.mark.skipif(not shutil.which("buildah") or os.geteuid() != 0, reason="needs buildah, and must run as root")
def test_image(packages, place):
    run("strip", "-o", place / "toolwire", BINARY)
    image, again = place / "toolwire.oci.tar", place / "again.oci.tar"
    for each in image, again:
        run(REPOSITORY / "deploy/image", place / "toolwire", one(packages, "*.cdx.json"), each, *libraries(BINARY))
    assert image.read_bytes() == again.read_bytes()
    # A short path, since buildah makes sockets below it.
    with tempfile.TemporaryDirectory() as state:
        buildah = ["buildah", "--storage-driver", "vfs", "--root", f"{state}/root", "--runroot", f"{state}/run"]
        # A copy, since names of archives have no quotes.
        shutil.copy(image, f"{state}/image")
        container = run(*buildah, "from", "--quiet", f"oci-archive:{state}/image").strip()
        about = json.loads(run(*buildah, "inspect", container))
        assert about["FromImageDigest"] == image.with_name("toolwire.oci.tar.digest").read_text().strip()
        settings = about["OCIv1"]["config"]
        assert (settings["User"], settings["Entrypoint"], settings["Cmd"]) == ("65532:65532", ["/usr/bin/toolwire"], ["serve"])
        inside = [*buildah, "run", "--isolation", "chroot", container, "--", *settings["Entrypoint"]]
        works(*inside, env={"PATH": os.environ["PATH"]})
        # Keys are stored below /var/lib/toolwire, which the user must own.
        assert run(*inside, "keys", "add", "someone")
        root = Path(run(*buildah, "mount", container).strip())
        listed = root / "usr/share/doc/toolwire/toolwire.cdx.json"
        assert listed.read_bytes() == one(packages, "*.cdx.json").read_bytes()


def test_packages_do_not_depend_on_the_machine_that_builds_them(packages):
    times = set()
    for path in [*packages.glob("*.tgz"), *packages.glob("*.tar.gz")]:
        with tarfile.open(path) as tar:
            members = tar.getmembers()
        assert [each.name for each in members] == sorted(each.name for each in members)
        assert {(each.uid, each.gid, each.uname, each.mode) for each in members} <= {(0, 0, "", 0o644), (0, 0, "", 0o755)}
        times |= {each.mtime for each in members}
        # The time in gzip's header.
        assert path.read_bytes()[4:8] == bytes(4)
    assert len(times) == 1
    with zipfile.ZipFile(one(packages, "*.whl")) as wheel:
        entries = wheel.infolist()
    assert len({each.date_time for each in entries}) == 1
    assert {each.external_attr >> 16 for each in entries} == {0o100644, 0o100755}


def test_npm_packages_have_equal_versions(packages):
    about = {}
    for path in packages.glob("*.tgz"):
        with tarfile.open(path) as tar:
            package = json.load(tar.extractfile("package/package.json"))
        about[package["name"]] = package
    main = about.pop("toolwire")
    [(name, platform)] = about.items()
    assert main["version"] == platform["version"] == main["optionalDependencies"][name] == VERSION
