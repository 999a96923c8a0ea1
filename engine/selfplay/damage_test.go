package selfplay_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/selfplay"
)

// A run of which a byte is wrong, in a finished file or among the games that wait, is refused or ends as it would have.
func TestDamaged(t *testing.T) {
	c, dir := config(), t.TempDir()
	c.Rules, c.Visits, c.FastVisits = "4x4x3", 6, 3
	const games = 12
	gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, 4, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := selfplay.Run(ctx, bitsquares(t), c, dir, games, func(p selfplay.Progress) {
		if p.Played == 5 {
			cancel()
		}
	})
	if got := names(files(t, dir)); !errors.Is(err, context.Canceled) || len(got) != 3 {
		t.Fatalf("%v, files %v", err, got)
	}
	durabletest.Damage(t, dir, 7, nil, func(dir string) (string, error) {
		if err := selfplay.Run(t.Context(), bitsquares(t), c, dir, games, nil); err != nil {
			return "", err
		}
		var records []string
		for _, name := range names(files(t, dir)) {
			if strings.HasSuffix(name, ".parquet") {
				records = append(records, fmt.Sprint(name, recordtest.Read(t, filepath.Join(dir, name))))
			}
		}
		return strings.Join(records, "\n"), nil
	})
}
