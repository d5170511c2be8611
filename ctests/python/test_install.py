"""The commands of the pages that install the library and replace the old ones."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OLD = [f"{name}.so" for name in ("acoustic1order", "acoustic2order", "acoustic1vti", "acoustic1tti")]
# Each block that makes the links, and the folder of the links.
PAGES = {"README.md": ".", "docs/moving-from-acoustic3d-fd.md": "package/lib"}


def block(page: str) -> str:
    """Returns the shell commands of a page that make the links."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    return next(text for text in blocks if "ln -sf" in text)


class Links(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.library = self.home / "gpusched/lib/libgpusched.so"

    def folder(self, page: str) -> Path:
        """Returns a new folder in which the commands find four old libraries."""
        folder = Path(tempfile.mkdtemp(dir=self.home))
        (folder / PAGES[page]).mkdir(parents=True, exist_ok=True)
        for name in OLD:
            (folder / PAGES[page] / name).write_text(name)
        return folder

    def run_block(self, page: str, folder: Path, option: str = "-c") -> int:
        """Runs the commands of a page in a folder. Returns the status."""
        environment = os.environ | {"HOME": str(self.home)}
        shell = ["bash", option, block(page)]
        return subprocess.run(shell, cwd=folder, env=environment, capture_output=True).returncode

    def test_old_libraries_stay_where_the_new_one_is_missing(self) -> None:
        for page, places in PAGES.items():
            for option in ("-c", "-ec"):
                with self.subTest(page=page, option=option):
                    folder = self.folder(page)
                    self.assertNotEqual(self.run_block(page, folder, option), 0)
                    self.assertEqual([(folder / places / name).read_text() for name in OLD], OLD)

    def test_old_libraries_are_kept_beside_the_links(self) -> None:
        self.library.parent.mkdir(parents=True)
        self.library.touch()
        for page, places in PAGES.items():
            folder = self.folder(page)
            # The second time the links are replaced, and nothing is kept.
            for times in (1, 2):
                with self.subTest(page=page, times=times):
                    self.assertEqual(self.run_block(page, folder), 0)
                    targets = [(folder / places / name).resolve() for name in OLD]
                    self.assertEqual(targets, [self.library.resolve()] * 4)
                    self.assertEqual([(folder / places / f"{name}.old").read_text() for name in OLD], OLD)


@unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
class Options(unittest.TestCase):
    """Whether the command and the tests are built, by CMake 3.20, which has no PROJECT_IS_TOP_LEVEL."""

    def options(self, source: Path) -> list[str]:
        with tempfile.TemporaryDirectory() as build:
            older = Path(build, "older.cmake")
            older.write_text("unset(PROJECT_IS_TOP_LEVEL)\n")
            define = f"-DCMAKE_PROJECT_INCLUDE={older}"
            subprocess.run(["cmake", "-S", source, "-B", build, define], check=True, stdout=subprocess.PIPE)
            cache = Path(build, "CMakeCache.txt").read_text()
        return re.findall(r"^GPUSCHED_(?:COMMAND|TESTS):BOOL=(\w+)", cache, re.M)

    def test_the_project_itself_builds_the_command(self) -> None:
        self.assertEqual(self.options(ROOT), ["ON", "ON"])

    def test_a_part_of_another_project_is_the_library_alone(self) -> None:
        self.assertEqual(self.options(ROOT / "ctests/packaging/add_subdirectory"), ["OFF", "OFF"])


if __name__ == "__main__":
    unittest.main()
