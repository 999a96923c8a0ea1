package vector

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// All sets of instructions define the macros of the package documentation, each once.
func TestMacros(t *testing.T) {
	names, err := fs.Glob(Headers, "*_*.h")
	if err != nil || len(names) != 3 {
		t.Fatalf("headers of instructions: %v, %v; want three", names, err)
	}
	for _, name := range names {
		text, err := Headers.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^#define (\w+)`).FindAllSubmatch(text, -1) {
			got = append(got, string(m[1]))
		}
		want := []string{"ABOVE", "ADD", "FMA", "FMA_EACH", "FROM_INT32", "LANES", "LOAD", "NONZERO", "REGISTER", "RELU", "SPREAD", "STORE", "STORE_UINT8", "VEC"}
		if strings.HasSuffix(name, "amd64.h") {
			want = append(want, "DOT_INT8", "LOWER_HALVES")
		}
		if name == "avx512_amd64.h" {
			want = append(want, "DOT_BF16", "STORE_BF16", "COMPRESS", "COUNTING")
		}
		if name == "neon_arm64.h" {
			want = append(want, "HIGHS", "LOWS", "MMLA_BF16", "MMLA_INT8", "PAIR", "STORE_BF16")
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s defines %v, want %v", name, got, want)
		}
	}
}
