package cpu

import "testing"

func TestIdentity(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\ncpu MHz\t\t: 2596.096\n\nprocessor\t: 1\nmodel\t\t: 18\n": "AuthenticAMD 25 17 AMD EPYC 1",
		"processor\t: 0\nBogoMIPS\t: 2100.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\nCPU revision\t: 1\n":                               "0x41 0x1 0xd40 1",
	} {
		if got := identity(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
