"""The wheel and the sdist hold what they must, under the names that users import."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from pathlib import Path

from tests.packaging.conftest import FILES, OTHER_FOLDERS, PACKAGE_FOLDERS, PROBES, Installed


def test_package_list_is_the_folders_with_python_files(root: Path) -> None:
    setuptools = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    mapped: dict[str, str] = {"onemodel": "onemodel", **setuptools["package-dir"]}
    folders = {file.parent for name in PACKAGE_FOLDERS for file in (root / name).rglob("*.py")}
    found = set()
    for folder in folders:
        first, *rest = folder.relative_to(root).parts
        (package,) = (package for package, place in mapped.items() if place == first)
        found.add(".".join((package, *rest)))
    assert sorted(setuptools["packages"]) == sorted(found)
    assert not [folder for folder in folders if not (folder / "__init__.py").is_file()]


def in_wheel(name: str) -> str:
    """Where the wheel has the file ``name`` of the repository."""
    return name if name.startswith("onemodel/") else f"onemodel/{name}"


def files_below(folder: Path, *names: str) -> set[str]:
    """Every file below the folders ``names`` of ``folder``, relative to it."""
    files = [file for name in names for file in (folder / name).rglob("*") if file.is_file()]
    return {file.relative_to(folder).as_posix() for file in files}


def test_wheel_holds_every_file_of_the_package_folders_and_nothing_else(source: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = archive.read(next(name for name in names if name.endswith("/top_level.txt"))).decode()
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    wanted = {in_wheel(name) for name in files_below(source, *PACKAGE_FOLDERS)}
    assert len(names) == len(set(names))
    assert set(names) - metadata == wanted
    assert {in_wheel(probe) for probe in PROBES} < wanted
    assert {"onemodel/py.typed", "onemodel/data/digits.onnx", "onemodel/data/digits.npz"} < wanted
    assert {name.split("/", 1)[1] for name in metadata} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "licenses/NOTICE",
        "top_level.txt",
    }
    assert record.split() == ["onemodel"]


def test_sdist_holds_the_whole_repository(source: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    wanted = files_below(source, *PACKAGE_FOLDERS, *OTHER_FOLDERS) | set(FILES)
    generated = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert names - generated == wanted


def test_sdist_builds_the_same_wheel(wheel: Path, wheel_of_sdist: Path) -> None:
    assert wheel.name == wheel_of_sdist.name
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(wheel_of_sdist) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []


def test_installed_wheel_imports_from_another_folder(installed: Installed) -> None:
    code = """
import importlib, importlib.metadata, sys
for name in ("onemodel", "onemodel.ops", "onemodel.ops.registry", "onemodel.backends", "onemodel.backends.exact"):
    print(importlib.import_module(name).__file__)
import onemodel
assert importlib.metadata.version("onemodel-runtime") == onemodel.__version__
assert len(onemodel.__path__) == 1, onemodel.__path__
assert "ops" not in sys.modules and "backends" not in sys.modules
"""
    files = installed.run("python", "-W", "error", "-c", code).splitlines()
    assert len(files) == 5
    assert all(Path(file).is_relative_to(installed.folder) for file in files)


def test_installed_wheel_has_its_package_data(installed: Installed) -> None:
    names = ["onemodel/py.typed", "onemodel/data/digits.onnx", "onemodel/data/digits.npz", *PROBES]
    code = f"""
from importlib.resources import files
for name in {[in_wheel(name) for name in names]}:
    package, file = name.rsplit("/", 1)
    folder = next(end for end in ("data", "cuda", "") if package.endswith(end))
    package = package.removesuffix(f"/{{folder}}")
    data = files(package.replace("/", ".")) / folder / file
    assert data.is_file(), name
    print(name)
"""
    assert installed.run("python", "-c", code).split() == [in_wheel(name) for name in names]


def test_installed_command_is_the_module(installed: Installed) -> None:
    from_script = installed.run("onemodel", "--help")
    from_module = installed.run("python", "-m", "onemodel", "--help")
    for text in (from_script, from_module):
        for command in ("demo", "run", "info", "ops"):
            assert command in text


def test_installed_demo_runs(installed: Installed) -> None:
    assert "mode: exact" in installed.run("onemodel", "demo")
