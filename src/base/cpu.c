/* CPU features, as reported by the kernel (ARM) or by the CPU itself (x86). */
#define _DEFAULT_SOURCE /* syscall */
#include "base/cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
/* From the kernel's asm/hwcap.h, repeated here so that old headers suffice. */
enum { HWCAP_ASIMD_BIT = 1, HWCAP_ASIMDHP_BIT = 10, HWCAP_ASIMDDP_BIT = 20 };
enum { HWCAP2_I8MM_BIT = 13, HWCAP2_BF16_BIT = 14 };

static uint32_t detect(void)
{
    const unsigned long a = getauxval(AT_HWCAP), b = getauxval(AT_HWCAP2);
    uint32_t f = 0;
    f |= a >> HWCAP_ASIMD_BIT & 1 ? ZN_CPU_NEON : 0;
    f |= a >> HWCAP_ASIMDHP_BIT & 1 ? ZN_CPU_FP16 : 0;
    f |= a >> HWCAP_ASIMDDP_BIT & 1 ? ZN_CPU_DOTPROD : 0;
    f |= b >> HWCAP2_BF16_BIT & 1 ? ZN_CPU_BF16 : 0;
    f |= b >> HWCAP2_I8MM_BIT & 1 ? ZN_CPU_I8MM : 0;
    return f;
}

#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t xgetbv(void)
{
    uint32_t a, d;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

/* Linux permits the tile registers only on request: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA). */
static bool amx_granted(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static uint32_t detect(void)
{
    uint32_t a, b, c, d, f = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) /* OSXSAVE */
        return 0;
    const uint64_t xcr0 = xgetbv();
    const int fma = c >> 12 & 1, f16c = c >> 29 & 1;
    uint32_t a7, b7, c7, d7;
    if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7))
        return 0;
    if ((xcr0 & 6) == 6 && (b7 >> 5 & 1) && fma && f16c)
        f |= ZN_CPU_AVX2;
    const int avx512 = (b7 >> 16 & 1) && (b7 >> 30 & 1) && (b7 >> 17 & 1) && (b7 >> 31 & 1);
    if ((f & ZN_CPU_AVX2) && (xcr0 & 0xe6) == 0xe6 && avx512)
        f |= ZN_CPU_AVX512;
    uint32_t a71, b71, c71, d71;
    if (!__get_cpuid_count(7, 1, &a71, &b71, &c71, &d71))
        a71 = 0;
    if ((f & ZN_CPU_AVX2) && (a71 >> 4 & 1))
        f |= ZN_CPU_AVXVNNI;
    if (f & ZN_CPU_AVX512) {
        if (c7 >> 11 & 1)
            f |= ZN_CPU_AVX512VNNI;
        if (a71 >> 5 & 1)
            f |= ZN_CPU_AVX512BF16;
        if ((d7 >> 24 & 1) && (xcr0 >> 17 & 3) == 3 && amx_granted()) /* tiles; then what they multiply */
            f |= (d7 >> 22 & 1 ? ZN_CPU_AMX_BF16 : 0) | (d7 >> 25 & 1 ? ZN_CPU_AMX_I8 : 0);
    }
    return f;
}
#else
static uint32_t detect(void) { return 0; }
#endif

static const struct {
    uint32_t bit;
    const char *name;
} names[] = {
    { ZN_CPU_NEON, "neon" },       { ZN_CPU_FP16, "fp16" },
    { ZN_CPU_BF16, "bf16" },       { ZN_CPU_I8MM, "i8mm" },
    { ZN_CPU_DOTPROD, "dotprod" }, { ZN_CPU_AVX2, "avx2" },
    { ZN_CPU_AVX512, "avx512" },   { ZN_CPU_AVX512BF16, "avx512bf16" },
    { ZN_CPU_AMX_BF16, "amx" },    { ZN_CPU_AVX512VNNI, "avx512vnni" },
    { ZN_CPU_AVXVNNI, "avxvnni" }, { ZN_CPU_AMX_I8, "amxint8" },
};
enum { NAMES = sizeof names / sizeof *names };

/* True if the comma-separated list contains exactly this name. */
static int listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == 0 || p[n] == ','))
            return 1;
    return 0;
}

uint32_t zn_cpu_flags(void)
{
    uint32_t f = detect();
    const char *mask = getenv("ZENITH_CPU_MASK");
    for (int i = 0; mask && i < NAMES; i++)
        if (listed(mask, names[i].name))
            f &= ~names[i].bit;
    return f;
}

void zn_cpu_text(uint32_t flags, char *text, int size)
{
    int used = 0;
    text[0] = 0;
    for (int i = 0; i < NAMES; i++)
        if ((flags & names[i].bit) && used < size)
            used += snprintf(text + used, (size_t)(size - used), "%s%s", used ? "+" : "", names[i].name);
    if (!used)
        snprintf(text, (size_t)size, "scalar");
}
