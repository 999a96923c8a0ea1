package conv

import (
	"slices"
	"testing"
)

// A kernel of one weight in one corner shifts the board.
func TestShift(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	s := Shape{N: 1, I: 1, O: 1, H: 2, W: 3}
	x, w, y := []float32{1, 2, 3, 4, 5, 6}, make([]float32, 9), make([]float32, 6)
	w[0] = 1 // y[r,c] = x[r-1,c-1]
	p.Conv3x3(y, x, w, []float32{10}, s, Then{})
	if want := []float32{10, 10, 10, 10, 11, 12}; !slices.Equal(y, want) {
		t.Errorf("Conv3x3 = %v, want %v", y, want)
	}
	p.Conv3x3InputGrad(y, x, w, s, Grad{})
	if want := []float32{5, 6, 0, 0, 0, 0}; !slices.Equal(y, want) {
		t.Errorf("Conv3x3InputGrad = %v, want %v", y, want)
	}
}
