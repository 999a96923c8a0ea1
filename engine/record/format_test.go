package record_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.parquet")
	recordtest.Write(t, good, records(1, 300))
	whole := gametest.Must(os.ReadFile(good))(t)
	type other struct {
		Rules string `parquet:"rules"`
	}
	parquetOf := func(options ...parquet.WriterOption) []byte {
		var b bytes.Buffer
		gametest.OK(t, parquet.Write(&b, []other{{"7x6x4"}}, options...))
		return b.Bytes()
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "has 0 bytes, too few for Parquet"},
		{"text", []byte(strings.Repeat("no Parquet at all\n", 20)), "is not a whole Parquet file"},
		{"cut", whole[:len(whole)-1], "is not a whole Parquet file"},
		{"half", whole[:len(whole)/2], "is not a whole Parquet file"},
		{"foreign", parquetOf(), "not of training records: its metadata has no evald.records"},
		{"newer", parquetOf(parquet.KeyValueMetadata("evald.records", "3")), `metadata evald.records is "3", but this evald reads version 2`},
		{"columns", parquetOf(parquet.KeyValueMetadata("evald.records", "2")), "column own_lo is missing"},
	} {
		path := filepath.Join(dir, c.name)
		gametest.OK(t, os.WriteFile(path, c.content, 0o644))
		_, err := record.Open(good, path)
		if err == nil || !strings.HasPrefix(err.Error(), "records "+path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := record.Open(filepath.Join(dir, "nonesuch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := record.Open(dir); err == nil || !strings.HasSuffix(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// Columns may be in any order: they are found by their names.
func TestColumnOrder(t *testing.T) {
	type reversed struct {
		Move     uint8    `parquet:"move"`
		Game     int64    `parquet:"game"`
		Weight   float32  `parquet:"weight"`
		Network  string   `parquet:"network"`
		Source   string   `parquet:"source"`
		Ply      int32    `parquet:"ply"`
		GameOver uint8    `parquet:"gameover"`
		Z        int8     `parquet:"z"`
		Q        float32  `parquet:"q"`
		Visits   []uint32 `parquet:"visits,list"`
		AllHi    uint64   `parquet:"all_hi"`
		AllLo    uint64   `parquet:"all_lo"`
		OwnHi    uint64   `parquet:"own_hi"`
		OwnLo    uint64   `parquet:"own_lo"`
		Rules    string   `parquet:"rules"`
	}
	rs := records(7, 300)
	rows := make([]reversed, len(rs))
	for i, r := range rs {
		rows[i] = reversed{
			r.Move, r.Game, r.Weight, r.Network, r.Source.String(), int32(r.Ply), r.GameOver, r.Z, r.Q, r.Visits,
			r.Position.All.Hi, r.Position.All.Lo, r.Position.Own.Hi, r.Position.Own.Lo, r.Rules.String(),
		}
	}
	path := filepath.Join(t.TempDir(), "reversed.parquet")
	gametest.OK(t, parquet.WriteFile(path, rows, parquet.KeyValueMetadata("evald.records", "2")))
	if diff := cmp.Diff(rs, recordtest.Rest(t, open(t, path)), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
