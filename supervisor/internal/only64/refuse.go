//go:build 386 || amd64p32 || arm || armbe || mips || mips64p32 || mips64p32le || mipsle || ppc || riscv || s390 || sparc

package only64

// The compiler says "undefined", with this name.
var _ = the_actor_library_panics_on_32_bit_platforms_build_for_64_bit
