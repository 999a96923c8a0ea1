//go:build gpu

package cuda

import (
	"bytes"
	"testing"
)

// Each kernel has machine code for its architecture or for one before of the same major number, and no other.
func TestCubin(t *testing.T) {
	all, err := cubinFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		major, minor int
		file         string // "" if there is none
	}{
		{7, 5, ""},
		{8, 0, "sm_80"},
		{8, 6, "sm_86"},
		{8, 7, "sm_86"},
		{8, 9, "sm_89"},
		{9, 0, "sm_90a"},
		{10, 0, "sm_100"},
		{10, 3, "sm_100"},
		{11, 0, ""},
		{12, 1, "sm_120"},
	} {
		for _, k := range Kernels() {
			want := all[k.Module+"."+test.file]
			if k.Exact && test.file != "sm_90a" {
				want = nil
			}
			if test.file != "" && !k.Exact && len(want) == 0 {
				t.Fatalf("no file %s.%s", k.Module, test.file)
			}
			got := k.Cubin(test.major, test.minor)
			if !bytes.Equal(got, want) {
				t.Errorf("%s on %d.%d: %d bytes of machine code, want the %d of %q", k.Name, test.major, test.minor, len(got), len(want), test.file)
			}
			if got != nil && !bytes.Contains(got, []byte(".text."+k.Name+"\x00")) {
				t.Errorf("%s on %d.%d: the machine code does not have it", k.Name, test.major, test.minor)
			}
		}
	}
}
