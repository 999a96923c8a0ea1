package service

import (
	"io"
	"runtime"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// polite is a reader that lets other goroutines run after each politeBytes. Without that, a few clients whose long bodies are
// decompressed and parsed would hold all processors for ten milliseconds at a time, and short requests would wait their turn
// behind each of them.
type polite struct {
	in   io.Reader
	read int // since the last pause
}

// politeBytes take about a tenth of a millisecond to decompress or parse.
const politeBytes = 16 << 10

// Read implements io.Reader.
func (p *polite) Read(to []byte) (int, error) {
	if p.read >= politeBytes {
		p.read = 0
		runtime.Gosched()
	}
	n, err := p.in.Read(to[:min(len(to), politeBytes)])
	p.read += n
	return n, err
}

// politeCompressor decompresses politely.
type politeCompressor struct{ encoding.Compressor }

// Decompress implements encoding.Compressor.
func (c politeCompressor) Decompress(in io.Reader) (io.Reader, error) {
	r, err := c.Compressor.Decompress(in)
	if err != nil {
		return nil, err
	}
	return &polite{in: r}, nil
}

// gRPC finds compressors in a list of the whole program, which may change only while the program starts.
func init() { encoding.RegisterCompressor(politeCompressor{encoding.GetCompressor(gzip.Name)}) }
