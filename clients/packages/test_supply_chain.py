"""What is in the packages, whether they can be built again, and who signed them."""

import json
import os
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
import zlib

import pytest
from conftest import BINARY, REPOSITORY, package, with_list
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from test_packages import VERSION, files_of, one, run

BILL = "toolwire.cdx.json"
SIGNER = "maintainers@toolwire.invalid"


def crates(bill):
    return {(each["name"], each["version"]) for each in bill["components"]}


def test_bill_of_materials_is_cyclonedx(packages):
    text = one(packages, f"toolwire-{VERSION}-*.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    licensing = get_spdx_licensing()
    for each in json.loads(text)["components"]:
        [license] = each["licenses"]
        assert licensing.validate(license["expression"]).errors == [], each["name"]


def test_bill_of_materials_has_every_crate(bill):
    [target] = [each["value"] for each in bill["metadata"]["properties"] if each["name"] == "toolwire:target"]
    command = ["cargo", "tree", "--locked", "--edges", "normal", "--prefix", "none", "--target", target]
    printed = [line.split()[:2] for line in run(*command, cwd=REPOSITORY).splitlines() if line]
    assert crates(bill) | {("toolwire", VERSION)} == {(name, version.removeprefix("v")) for name, version in printed}
    locked = {}
    for each in tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]:
        locked[each["name"], each["version"]] = each.get("checksum")
    for each in bill["components"]:
        checksum = locked[each["name"], each["version"]]
        assert [found["content"] for found in each.get("hashes", [])] == [checksum] * (checksum is not None)


def test_all_crates_are_dependencies_of_the_program(bill):
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    found, left = set(), [bill["metadata"]["component"]["bom-ref"]]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += needs[each]
    assert found == set(needs) == {each["bom-ref"] for each in [bill["metadata"]["component"], *bill["components"]]}


def test_packages_have_the_bill_of_materials(packages, place):
    expected = one(packages, f"toolwire-{VERSION}-*.cdx.json").read_bytes()
    with zipfile.ZipFile(one(packages, "*.whl")) as wheel:
        assert wheel.read(f"toolwire-{VERSION}.dist-info/sboms/{BILL}") == expected
    for path in one(packages, "*.tar.gz"), one(packages, "toolwire-linux-*.tgz"):
        with tarfile.open(path) as tar:
            [member] = [each for each in tar.getmembers() if each.name.endswith(f"/{BILL}")]
            assert tar.extractfile(member).read() == expected
    if shutil.which("dpkg-deb"):
        run("dpkg-deb", "--extract", one(packages, "*.deb"), place)
        assert (place / "usr/share/doc/toolwire" / BILL).read_bytes() == expected


def test_packaged_program_lists_its_crates(packages, bill, place):
    with tarfile.open(one(packages, "*.tar.gz")) as tar:
        tar.extractall(place, filter="data")
    run("objcopy", "--dump-section", f".dep-v0={place}/listed", one(place, "toolwire-*") / "toolwire", place / "copy")
    listed = json.loads(zlib.decompress((place / "listed").read_bytes()))["packages"]
    assert crates(bill) <= {(each["name"], each["version"]) for each in listed}


def test_program_with_other_crates_is_refused(bill, place):
    listed = [{"name": each["name"], "version": each["version"]} for each in bill["components"] if each["name"] != "tokio"]
    done = package(with_list(BINARY, listed, place / "other"), place / "packages")
    assert done.returncode == 1
    assert "without crates of the bill of materials: [('tokio'," in done.stderr
    assert not (place / "packages").exists()


def test_packages_are_built_again_bit_for_bit(packages, program, place):
    """In another folder, time zone and language, and for a user with another umask and home."""
    when = run("git", "-C", REPOSITORY, "log", "-1", "--format=%ct").strip()
    environment = {"TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8", "TMPDIR": str(place), "SOURCE_DATE_EPOCH": when}
    done = package(program, place / "again", cwd=place, umask=0o077, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    names = files_of(packages)
    assert files_of(place / "again") == names
    different = [name for name in names if (packages / name).read_bytes() != (place / "again" / name).read_bytes()]
    assert different == []


def new_key(folder, name):
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / name)
    return f'{SIGNER} namespaces="toolwire" {(folder / f"{name}.pub").read_text()}'


def verified(file, signers, signature=None):
    """Runs the command of docs/install.md."""
    command = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", SIGNER, "-n", "toolwire", "-s", signature or f"{file}.sig"]
    with file.open("rb") as content:
        return subprocess.run(command, stdin=content, capture_output=True, timeout=60).returncode == 0


@pytest.fixture
def signed(packages, place):
    """A folder of signed packages, and the list of those who may sign."""
    folder, signers = place / "signed", place / "allowed_signers"
    folder.mkdir()
    for name in files_of(packages):
        os.link(packages / name, folder / name)
    signers.write_text(new_key(place, "key"))
    run(REPOSITORY / "deploy/sign", place / "key", folder)
    return folder, signers


def test_signatures(signed, packages, place):
    folder, signers = signed
    names = files_of(packages) | {"SHA256SUMS"}
    assert files_of(folder) == names | {f"{name}.sig" for name in names}
    assert len(names) >= 6
    for name in names:
        assert verified(folder / name, signers), name
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=folder)
    assert {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()} == files_of(packages)


def test_changed_byte_is_noticed(signed, place):
    folder, signers = signed
    for name in "SHA256SUMS", one(folder, "*.whl").name, one(folder, "*.cdx.json").name:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        changed = place / name
        changed.write_bytes(content)
        assert not verified(changed, signers, folder / f"{name}.sig")
        if name != "SHA256SUMS":
            shutil.copy(folder / "SHA256SUMS", place)
            checked = subprocess.run(["sha256sum", "--check", "--ignore-missing", "SHA256SUMS"], cwd=place, capture_output=True)
            assert checked.returncode == 1
            assert f"{name}: FAILED" in checked.stdout.decode()
            changed.unlink()


def test_signature_of_another_key_or_file_is_refused(signed, place):
    folder, signers = signed
    wheel, bill = one(folder, "*.whl"), one(folder, "*.cdx.json")
    assert not verified(wheel, signers, f"{bill}.sig")
    other = place / "other_signers"
    other.write_text(new_key(place, "other"))
    assert not verified(wheel, other)
