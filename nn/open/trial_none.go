//go:build !linux

package open

// limitTrial does nothing: ONNX files are opened only on Linux.
func limitTrial(int) error { return nil }
