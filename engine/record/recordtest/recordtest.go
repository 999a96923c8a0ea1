// Package recordtest writes and reads files of records for tests.
package recordtest

import (
	"errors"
	"io"
	"testing"

	"github.com/evald/evald/engine/record"
)

// Write writes a file of the given records.
func Write(t testing.TB, path string, records []record.Record) {
	t.Helper()
	w, err := record.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Read returns all records of the given files.
func Read(t testing.TB, paths ...string) []record.Record {
	t.Helper()
	r, err := record.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return Rest(t, r)
}

// Rest returns the remaining records of a reader of either kind.
func Rest(t testing.TB, r interface{ Next(*record.Record) error }) (all []record.Record) {
	t.Helper()
	for {
		var rec record.Record
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
}
