package cpu

// feature is a processor feature that golang.org/x/sys/cpu does not detect.
type feature struct {
	name string
	flag uintptr // of Linux, in HWCAP2
}

var (
	bf16 = feature{"FEAT_BF16", 1 << 14}
	i8mm = feature{"FEAT_I8MM", 1 << 13}
)
