"""A made-up data set in the layout of PIE's."""

import json

_SLOW = """#include <cstdio>

int main() {
  int n;
  static long long values[1000];
  scanf("%d", &n);
  for (int i = 0; i < n; ++i) scanf("%lld", values + i);
  long long most = 0;
  for (int repeat = 0; repeat < 4000; ++repeat)
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        long long sum = values[i] + values[j];
        asm volatile("" : "+r"(sum));
        if (i != j && sum > most) most = sum;
      }
  printf("%lld\\n", most);
}
"""
_INPUTS = (list(range(1, 60)), [7, 3, 90, 12] * 10, list(range(100, 20, -1)))


def _test(number: int, values: list[int]) -> dict[str, str]:
    home = "merged_test_cases/p00001"
    first, second = sorted(values)[-2:]
    return {
        f"{home}/input.{number}.txt": f"{len(values)}\n{' '.join(map(str, values))}\n",
        f"{home}/output.{number}.txt": f"{first + second}\n",
    }


FILES = {
    "test.jsonl": json.dumps({"problem_id": "p00001", "src_code": _SLOW, "tests": [0, 1, 2]}) + "\n",
    **{path: text for number, values in enumerate(_INPUTS) for path, text in _test(number, values).items()},
}
