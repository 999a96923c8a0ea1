package record

import (
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/game/gametest"
)

// WriteUnchecked writes records without checking them, as another program might.
func WriteUnchecked(t testing.TB, path string, records ...Record) {
	t.Helper()
	rows := make([]fullRow, len(records))
	for i, r := range records {
		rows[i] = fullRow{Policy: r.Policy, row: row{
			Rules: r.Rules.String(), OwnLo: r.Position.Own.Lo, OwnHi: r.Position.Own.Hi, AllLo: r.Position.All.Lo, AllHi: r.Position.All.Hi,
			Visits: r.Visits, Q: r.Q, Z: r.Z, GameOver: r.GameOver, Ply: int32(r.Ply), Source: r.Source.String(), Network: r.Network, Weight: r.Weight,
			Game: r.Game, Move: r.Move,
		}}
	}
	gametest.OK(t, parquet.WriteFile(path, rows, parquet.KeyValueMetadata(versionKey, version)))
}
