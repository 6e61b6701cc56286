// A program of somebody else in C++17: the public header alone, warnings are errors.

#include "sluice/lend.h"
#include "sluice/sluice.h"

#include <cstdio>
#include <string>
#include <vector>

int main()
{
    std::vector<float> table(3 * 256);
    for (int v = 0; v < 256; v++)
        for (int c = 0; c < 3; c++)
            table[256 * c + v] = static_cast<float>(v) * (c == 1 ? -1.0f : 0.5f);
    const std::vector<uint8_t> pixels{2, 3, 4, 250, 251, 252};
    const std::vector<uint16_t> expected{0x3f80, 0xc040, 0x4000, 0x42fa, 0xc37b, 0x42fc};
    std::vector<uint16_t> out(pixels.size());
    sluice_err err{};
    const sluice_status status =
        sluice_finish(pixels.data(), 1, 2, 1, reinterpret_cast<const float(*)[256]>(table.data()),
                      SLUICE_BF16, SLUICE_NHWC, out.data(), &err);
    if (status != SLUICE_OK || out != expected) {
        std::printf("sluice_finish: status %d, \"%s\"\n", static_cast<int>(status), err.text);
        for (uint16_t value : out)
            std::printf("%04x\n", static_cast<unsigned>(value));
        return 1;
    }
    if (std::string(sluice_version()) != EXPECTED_VERSION) {
        std::printf("version %s, not %s\n", sluice_version(), EXPECTED_VERSION);
        return 1;
    }
    return 0;
}
