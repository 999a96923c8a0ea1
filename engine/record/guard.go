package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The Parquet library allocates the memory that a file claims to need before it notices that the file is shorter: for the bytes of the
// footer, the elements of its lists, and the bytes and values of pages. A few wrong bits could cost gigabytes, or crash the process. So
// this file first decodes the footer and the page headers, with the library's decoder on a reader that bounds lists and depth. It rejects
// those that claim more than the file can contain, or more than any file of records needs.

const (
	maxFooter     = 16 << 20 // bytes; a row group takes about 3 kB
	maxPageHeader = 8 << 10  // bytes
	maxPage       = 64 << 20 // bytes, uncompressed
	maxPageValues = 4 << 20
)

var errDamaged = errors.New("the file is damaged")

// readFooter returns the undecoded bytes of the footer.
func readFooter(f io.ReaderAt, size int64) ([]byte, error) {
	const magic, tail = "PAR1", 8
	var head [4]byte
	var end [tail]byte
	if size < int64(len(head)+len(end)) {
		return nil, fmt.Errorf("has %d bytes, too few for Parquet", size)
	}
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(end[:], size-tail); err != nil {
		return nil, err
	}
	if string(head[:]) != magic || string(end[4:]) != magic {
		return nil, errors.New("is not a whole Parquet file: it must begin and end with PAR1")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > min(maxFooter, size-tail-int64(len(head))) {
		return nil, fmt.Errorf("footer has %d bytes, but the file has %d: %w", length, size, errDamaged)
	}
	footer := make([]byte, length)
	_, err := f.ReadAt(footer, size-tail-length)
	return footer, err
}

// checkPages checks the headers of all pages of a column's chunk. The library reads the pages from the same offset.
func checkPages(f io.ReaderAt, size int64, m *format.ColumnMetaData) error {
	if m.Codec != format.Uncompressed && m.Codec != format.Zstd {
		return fmt.Errorf("is compressed with %v: use zstd", m.Codec)
	}
	at := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		at = m.DictionaryPageOffset
	}
	if at < 0 || m.TotalCompressedSize < 0 || m.TotalCompressedSize > size || at > size-m.TotalCompressedSize {
		return fmt.Errorf("has %d bytes at %d in a file of %d: %w", m.TotalCompressedSize, at, size, errDamaged)
	}
	data := at == m.DataPageOffset // whether a page begins at that offset, as one must
	for end := at + m.TotalCompressedSize; at < end; {
		header := make([]byte, min(maxPageHeader, end-at))
		if _, err := f.ReadAt(header, at); err != nil {
			return err
		}
		var page format.PageHeader
		n, err := decode(header, &page)
		if err == nil {
			err = checkPage(&page, end-at-n)
		}
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		at += n + int64(page.CompressedPageSize)
		data = data || at == m.DataPageOffset
	}
	if !data {
		return fmt.Errorf("has no page at byte %d: %w", m.DataPageOffset, errDamaged)
	}
	return nil
}

// checkPage checks the sizes of a page; left is the number of bytes that remain for it.
func checkPage(p *format.PageHeader, left int64) error {
	if int64(p.CompressedPageSize) > left {
		return fmt.Errorf("has %d bytes, but %d are left: %w", p.CompressedPageSize, left, errDamaged)
	}
	v2 := &p.DataPageHeaderV2.V
	for _, n := range []struct {
		count int32
		most  int32
		what  string
	}{
		{p.CompressedPageSize, maxPage, "compressed bytes"},
		{p.UncompressedPageSize, maxPage, "bytes"},
		{p.DataPageHeader.V.NumValues, maxPageValues, "values"},
		{p.DictionaryPageHeader.V.NumValues, maxPageValues, "values"},
		{v2.NumValues, maxPageValues, "values"},
		{v2.NumRows, maxPageValues, "rows"},
	} {
		if n.count < 0 || n.count > n.most {
			return fmt.Errorf("has %d %s: %w", n.count, n.what, errDamaged)
		}
	}
	return nil
}

// decode decodes the struct of Thrift's compact protocol at the beginning of text, and returns its size in bytes.
func decode(text []byte, into any) (n int64, err error) {
	var compact thrift.CompactProtocol
	r := &boundedReader{BytesReader: compact.NewReaderFromBytes(text), size: len(text), elements: 1000 + len(text)/16, open: []int{1}}
	if err := thrift.NewDecoder(r).Decode(into); err != nil {
		return 0, errDamaged // the library's error contains the whole path, which may be very long
	}
	return int64(r.BytesRead()), nil
}

// boundedReader rejects lists that are longer than the text can contain, and structs that are nested too deeply for the stack.
type boundedReader struct {
	thrift.BytesReader
	size     int   // bytes of the text
	elements int   // number of structs that lists may still have: a struct takes up to 560 bytes of memory, and in real files more than 16 bytes of text
	open     []int // number of unfinished structs, by level of nesting
}

const maxDepth = 16

func (r *boundedReader) nest(structs int) error {
	if r.open = append(r.open, structs); len(r.open) > maxDepth {
		return errDamaged
	}
	return nil
}

func (r *boundedReader) ReadField() (thrift.Field, error) {
	f, err := r.BytesReader.ReadField()
	switch {
	case err != nil:
	case f.Type == thrift.STRUCT:
		err = r.nest(1)
	case f.Type == thrift.STOP:
		last := len(r.open) - 1
		if r.open[last]--; r.open[last] == 0 && last > 0 {
			r.open = r.open[:last]
		}
	}
	return f, err
}

func (r *boundedReader) ReadList() (thrift.List, error) {
	l, err := r.BytesReader.ReadList()
	n := int(l.Size)
	switch {
	case err != nil:
		return l, err
	case n > r.size-r.BytesRead():
		return l, errDamaged
	case l.Type == thrift.LIST || l.Type == thrift.SET || l.Type == thrift.MAP: // Parquet has no lists of these
		return l, errDamaged
	case l.Type == thrift.STRUCT && n > 0:
		if r.elements -= n; r.elements < 0 {
			return l, errDamaged
		}
		return l, r.nest(n)
	}
	return l, nil
}

func (r *boundedReader) ReadSet() (thrift.Set, error) {
	l, err := r.ReadList()
	return thrift.Set(l), err
}

// ReadMap returns an error, because Parquet does not use maps.
func (r *boundedReader) ReadMap() (thrift.Map, error) { return thrift.Map{}, errDamaged }

// Discard skips n bytes. The decoder looks for this method beyond those of thrift.Reader.
func (r *boundedReader) Discard(n int) (int, error) {
	return r.BytesReader.(interface{ Discard(int) (int, error) }).Discard(n)
}
