package gametest

import "os"

// Soak says whether tests run all cases, as in make soak, and not one of each property.
func Soak() bool { return os.Getenv("EVALD_SOAK") != "" }
