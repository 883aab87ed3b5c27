import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import spacy_spectral

PACKAGE = Path(spacy_spectral.__file__).parent
SOURCES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.pyx"))
# a memoryview, its name, and neither "not None" nor a default value
OPEN = re.compile(r"\w+\[[:, 1]+\] \w+(?!\w)(?! not None)(?!\s*=)")
# what not every compiler knows
WORDS = re.compile(
    r"__attribute__|__builtin_|__has_|\brestrict\b|#pragma|_MSC_VER|__GNUC__|__clang__"
)
HEADERS = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.h"))
KERNELS = [
    *SOURCES,
    *(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.pxd")),
    *HEADERS,
]
# prints what headers compute, to the last bit
PROGRAM = r"""
#include <stdio.h>
#include "spacy_spectral/base/_exp.h"
#include "spacy_spectral/models/loglinear/_table.h"
#include "spacy_spectral/models/shag/_vector.h"

int main(void) {
    float x[37];
    double y[37], z[37], rows[48], weights[4] = {0.3, 0.7, 1.1, 0.2};
    double out[16] = {0}, d_rows[48] = {0}, d_weights[3] = {0};
    int32_t sums[37] = {0};
    int16_t cells[37];
    Bucket bucket;
    for (int i = 0; i < 37; i++) x[i] = 2.5f * i - 88.0f, cells[i] = (int16_t)(91 * i);
    for (int i = 0; i < 48; i++) rows[i] = 1.0 / (i + 3);
    for (int i = 0; i < 8; i++) bucket.check[i] = 7u * i, bucket.row[i] = 100u + i;
    exp_floats(y, x, 0.25f, 37);
    power_doubles(z, y, 0.7, 37);
    for (int i = 0; i < 37; i++) printf("%a %a\n", y[i], z[i]);
    add_dense(sums, cells, 37);
    for (int i = 0; i < 37; i++) printf("%d\n", sums[i]);
    printf("%u %u %d\n", row_in_bucket(&bucket, 21), row_in_bucket(&bucket, 22), count_of_bits(0xB7));
    prefetch(rows, 48);
    weighted_sum(rows, weights, 3, 16, out);
    add_product(rows, 4, 4, 0.3, weights, out);
    weighted_sum_adjoint(rows, weights, 3, 16, out, d_rows, d_weights);
    for (int i = 0; i < 16; i++) printf("%a %a\n", out[i], d_rows[i + 16]);
    for (int i = 0; i < 3; i++) printf("%a\n", d_weights[i]);
    transposed_product(rows, 4, 4, rows + 8, out);
    for (int i = 0; i < 4; i++) printf("%a\n", out[i]);
    return 0;
}
"""


def signatures(source):
    for found in re.finditer(r"^ *def \w+\(", source, flags=re.MULTILINE):
        depth, end = 1, found.end()
        while depth:
            depth += (source[end] in "([") - (source[end] in ")]")
            end += 1
        yield source[found.start() : end]


@pytest.mark.parametrize("path", SOURCES)
def test_memoryviews_that_python_gives_are_not_none(path):
    """None is a memoryview of nothing, and kernels do not look."""
    source = (PACKAGE / path).read_text(encoding="utf8")
    assert [s for s in signatures(source) if OPEN.search(s)] == []


def test_open_memoryviews_are_seen():
    (own,) = signatures("def f(\n    const int[:, ::1] a not None, double[::1] b, int c=1,\n):\n")
    assert OPEN.findall(own) == ["double[::1] b"]


def test_only_one_file_knows_compilers():
    found = {path: WORDS.findall((PACKAGE / path).read_text(encoding="utf8")) for path in KERNELS}
    assert [path for path, words in found.items() if words] == ["base/_compiler.h"]


@pytest.mark.skipif(os.name == "nt", reason="another form of hexadecimal numbers")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_plain_c_computes_what_vectors_do(compiler, tmp_path):
    """All headers, without a warning, for this compiler and for one that knows no vectors."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(
        "".join(f'#include "spacy_spectral/{path}"\n' for path in HEADERS) + PROGRAM,
        encoding="utf8",
    )
    printed = []
    for flag in ["-USPECTRAL_PLAIN_C", "-DSPECTRAL_PLAIN_C"]:
        flags = ["-O3", "-Wall", "-Werror", "-ffp-contract=off", flag, f"-I{PACKAGE.parent}"]
        subprocess.run([compiler, *flags, source, "-o", program], check=True)
        printed.append(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    assert printed[0] == printed[1]
    assert len(printed[0].split()) == 37 * 3 + 3 + 16 * 2 + 3 + 4
