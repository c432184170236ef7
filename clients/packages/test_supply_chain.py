"""What is in the packages and whether they can be built again."""

import json
import os
import shutil
import tarfile
import tomllib
import zipfile
import zlib

from conftest import BINARY, REPOSITORY, package, with_list
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from test_packages import VERSION, files_of, one, run

BILL = "toolwire.cdx.json"


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
