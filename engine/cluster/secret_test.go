package cluster

import (
	"math/rand/v2"
	"testing"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
)

// A password that a learner has read survives a power cut, also if a killed learner wrote it just before.
func TestSecretPower(t *testing.T) {
	for n := 1; n <= 20; n++ {
		for seed := range uint64(20) {
			d := durabletest.NewDisk(rand.New(rand.NewPCG(seed, uint64(n))))
			d.KillAt(n)
			func() {
				defer func() { _ = recover() }() // the kill
				_, _ = secret(d, "/password", "first")
			}()
			d.Kill()
			read := gametest.Must(secret(d, "/password", "second"))(t)
			d.PowerCut()
			if text := string(gametest.Must(d.ReadFile("/password"))(t)); text != read {
				t.Fatalf("killed at operation %d, seed %d: %q, and the learner had read %q", n, seed, text, read)
			}
		}
	}
}
