// The one function of bcryptprimitives.dll that Go's runtime needs and Wine 8 lacks.
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T size) { return SystemFunction036(bytes, (ULONG)size); }
