package gametest

import "testing"

// OneGoroutine skips a test where the race detector runs, which finds nothing in the work of one goroutine.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine works here, and the run without the race detector tests the same")
	}
}
