package ort_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// process is what the system says of this one.
type process struct{ threads, resident int } // KiB

func status(t testing.TB) (p process) {
	t.Helper()
	debug.FreeOSMemory()
	text := gametest.Must(os.ReadFile("/proc/self/status"))(t)
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "Threads: %d", &p.threads)
		fmt.Sscanf(line, "VmRSS: %d", &p.resident)
	}
	return p
}
