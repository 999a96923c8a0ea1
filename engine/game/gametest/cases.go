package gametest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Today reports whether a test runs case number i today. It selects every n-th case, with an offset that changes each day (UTC), so that n
// days cover all cases. make soak runs all. EVALD_DAY=d, which the test logs, repeats the choice of a day.
func Today(t testing.TB, i, n int) bool {
	t.Helper()
	if Soak() {
		return true
	}
	d := day(t)
	if i%n != d%n {
		return false
	}
	if i < n {
		t.Logf("case %d is of the day EVALD_DAY=%d", i, d) // log once
	}
	return true
}

// day is EVALD_DAY, or the number of days since 1970.
func day(t testing.TB) int {
	t.Helper()
	text := os.Getenv("EVALD_DAY")
	if text == "" {
		return int(time.Now().Unix() / (24 * 60 * 60))
	}
	d, err := strconv.Atoi(text)
	if err != nil || d < 0 {
		t.Fatalf("EVALD_DAY=%q: must be a number of days, from 0", text)
	}
	return d
}

// OneGoroutine skips a test under the race detector, which cannot find anything in a single goroutine.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine works here, and the run without the race detector tests the same")
	}
}
