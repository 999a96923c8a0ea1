package record_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
)

// A file of another program, without a checksum, that asks for more memory than it can need is refused, and takes little memory.
func TestForged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forged.parquet")
	record.WriteUnchecked(t, path, records(1, 300)...)
	whole := gametest.Must(os.ReadFile(path))(t)
	var compact thrift.CompactProtocol
	end := len(whole) - 8
	body, footer := whole[:end-int(binary.LittleEndian.Uint32(whole[end:]))], whole[end-int(binary.LittleEndian.Uint32(whole[end:])):end]
	join := func(body, footer []byte, length int) []byte {
		file := append(append([]byte(nil), body...), footer...)
		return append(binary.LittleEndian.AppendUint32(file, uint32(length)), "PAR1"...)
	}
	marshal := func(v any) []byte {
		return gametest.Must(thrift.Marshal(&compact, v))(t)
	}
	metadata := func(change func(*format.FileMetaData)) []byte {
		var m format.FileMetaData
		gametest.OK(t, thrift.Unmarshal(&compact, footer, &m))
		change(&m)
		text := marshal(&m)
		return join(body, text, len(text))
	}
	raw := func(begin string, more int) []byte { // a footer that begins so
		text := append([]byte(begin), make([]byte, more)...)
		return join(body, text, len(text))
	}
	list := func(field string, n uint64) string {
		return "\x15\x02" + field + string(binary.AppendUvarint([]byte{0xfc}, n))
	}
	page := func(text []byte) []byte { // the second column has this page alone
		var m format.FileMetaData
		gametest.OK(t, thrift.Unmarshal(&compact, footer, &m))
		c := &m.RowGroups[0].Columns[1].MetaData
		c.Codec, c.DataPageOffset, c.TotalCompressedSize = format.Zstd, int64(len(body)), int64(len(text))
		at := marshal(&m)
		return join(append(append([]byte(nil), body...), text...), at, len(at))
	}
	const huge = math.MaxInt32
	data := func(values, bytes, compressed int32, content []byte) []byte {
		h := format.PageHeader{Type: format.DataPage, UncompressedPageSize: bytes, CompressedPageSize: compressed}
		h.DataPageHeader = thrift.Null[format.DataPageHeader]{V: format.DataPageHeader{NumValues: values}, Valid: true}
		return page(append(marshal(&h), content...))
	}
	content := make([]byte, 100)
	for name, file := range map[string][]byte{
		"a footer of 2 GB":           join(body, footer, 1<<31),
		"a footer of the whole file": join(body, footer, len(whole)),
		"schema":                     raw(list("\x19", 1<<24), 1000),
		"row groups":                 raw(list("\x39", 1<<24), 1000),
		"short row groups":           raw(list("\x39", 1<<20), 1<<20),
		"key-value metadata":         raw(list("\x49", 1<<24), 1000),
		"nested structs":             raw(strings.Repeat("\xfc", 1<<20), 0),
		"nested lists":               raw("\xf9"+strings.Repeat("\x19", 1<<20), 0),
		"a map":                      raw("\xfb"+string(binary.AppendUvarint(nil, huge))+"\x55", 1000),
		"rows of a group":            metadata(func(m *format.FileMetaData) { m.RowGroups[0].NumRows, m.NumRows = 1<<39, 1<<39 }),
		"bytes of a chunk":           metadata(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.TotalCompressedSize = 1 << 60 }),
		"offset of a chunk":          metadata(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.DataPageOffset = 1 << 60 }),
		"values of a page":           data(huge, 100, 100, content),
		"bytes of a page":            data(300, huge, 100, content),
		"compressed bytes of a page": data(300, 100, huge, content),
		"statistics of a page":       page([]byte("\x15\x00\x15\xc8\x01\x15\xc8\x01\x2c\x15\x02\x15\x00\x15\x06\x15\x06\x1c\x18" + string(binary.AppendUvarint(nil, huge)) + "x")),
	} {
		gametest.OK(t, os.WriteFile(path, file, 0o644))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := readAll(path, func(int, *record.Record) {})
		runtime.ReadMemStats(&after)
		took := (after.TotalAlloc - before.TotalAlloc) >> 20
		if took > 16 || err == nil {
			t.Errorf("%s: %d MiB of memory, error %.300v", name, took, err)
		}
	}
}
