package ort_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// Other versions of the library pass the tests too. EVALD_ORT_LIBRARIES lists their paths: .ci/run installs the oldest one that is
// supported, and make soak several.
func TestVersions(t *testing.T) {
	needLibrary(t)
	if gametest.Race {
		t.Skip("other versions are other C code, at which the race detector does not look")
	}
	libraries := filepath.SplitList(os.Getenv("EVALD_ORT_LIBRARIES"))
	gametest.Need(t, len(libraries) > 0, "EVALD_ORT_LIBRARIES lists no library (see .ci/onnxruntime.txt)")
	self := gametest.Must(os.Executable())(t)
	for _, library := range libraries {
		t.Run(filepath.Base(library), func(t *testing.T) {
			c := exec.CommandContext(t.Context(), self, "-test.run", "^Test(Contract|Reference|Bits|Misfits|Damage|Types|Batch|Context|Concurrent|Providers)$", "-test.short")
			c.Env = append(os.Environ(), "EVALD_ORT_LIBRARY="+library, "EVALD_ORT_LIBRARIES=")
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", library, err, out)
			}
		})
	}
}
