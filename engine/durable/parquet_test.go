package durable_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
)

type row struct {
	N    int
	Text string
}

func sealed(t *testing.T, rows []row, more ...parquet.WriterOption) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.parquet")
	f := gametest.Must(durable.Create(path))(t)
	defer f.Abort()
	w := parquet.NewGenericWriter[row](f, append(more, parquet.KeyValueMetadata(durable.ParquetKey, durable.ParquetZeros))...)
	gametest.Must(w.Write(rows))(t)
	gametest.OK(t, w.Close())
	gametest.OK(t, errors.Join(f.SealParquet(), f.Commit()))
	return gametest.Must(os.ReadFile(path))(t)
}

func check(text []byte) error {
	_, err := durable.CheckParquet(bytes.NewReader(text), int64(len(text)))
	return err
}

// A wrong byte is noticed wherever it is, except in the name of the checksum: there it changes nothing else.
func TestParquetDamaged(t *testing.T) {
	text := sealed(t, []row{{1, "one"}, {2, "two"}}, parquet.KeyValueMetadata("evald.other", strings.Repeat("x", 5000)))
	gametest.OK(t, check(text))
	if got, err := parquet.Read[row](bytes.NewReader(text), int64(len(text))); err != nil || !slices.Equal(got, []row{{1, "one"}, {2, "two"}}) {
		t.Errorf("reads as %v, %v", got, err)
	}
	name := bytes.LastIndex(text, []byte(durable.ParquetKey))
	for at := range text {
		for _, by := range []byte{1, 0x20, 0x80, 0xff} {
			damaged := bytes.Clone(text)
			damaged[at] ^= by
			err := check(damaged)
			if inName := at >= name && at < name+len(durable.ParquetKey)+2; inName != (err == nil) {
				t.Errorf("byte %d of %d: %v", at, len(text), err)
			}
		}
	}
	if err := check(text[:len(text)-1]); err == nil {
		t.Error("the last byte is not missed")
	}
}

// A file without a checksum passes, whatever it is.
func TestParquetWithout(t *testing.T) {
	for _, text := range []string{"", "PAR1", "PAR1 " + durable.ParquetKey, durable.ParquetKey + "\x18\x08123"} {
		if err := check([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	f := gametest.Must(durable.Create(filepath.Join(t.TempDir(), "x")))(t)
	defer f.Abort()
	if err := f.SealParquet(); err == nil {
		t.Error("a file without a place for it was sealed")
	}
}
