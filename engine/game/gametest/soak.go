package gametest

import (
	"os"
	"testing"
	"time"
)

// Soak says whether tests run all cases, as in make soak, and not one of each property.
func Soak() bool { return os.Getenv("EVALD_SOAK") != "" }

// SoakTime is how long a test puts something under load: the time in EVALD_SOAK, or else short.
func SoakTime(t testing.TB, short time.Duration) time.Duration {
	if !Soak() {
		return short
	}
	d, err := time.ParseDuration(os.Getenv("EVALD_SOAK"))
	if err != nil {
		t.Fatalf("EVALD_SOAK: %v", err)
	}
	return d
}
