// The C++ side of list.c: hooks a list, sums and doubles its own version, passes that on.
//
//     list++ TOKEN      prints the sum, then its own token, waits for a line of input
#include <swing.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

namespace {

struct Node {
    Node *next;
    long value;
};

// An area that is released at the end of its scope.
class Area {
public:
    explicit Area(int token) {
        check(swing_hook(token, SWING_AT_ORIGIN, &area_));
    }
    Area(const Area &) = delete;
    Area &operator=(const Area &) = delete;
    ~Area() {
        swing_release(area_.token);
    }
    int token() const {
        return area_.token;
    }
    Node *root() const {
        swing_block reserved{};
        check(swing_reserved(area_.token, &reserved));
        return *static_cast<Node **>(reserved.address);
    }
    static void check(int status) {
        if (status != 0) {
            throw std::runtime_error(swing_last_error());
        }
    }

private:
    swing_area area_{};
};

} // namespace

int main(int argc, char **argv) {
    try {
        Area area(argc > 1 ? std::atoi(argv[1]) : 0);
        long sum = 0;
        for (Node *node = area.root(); node != nullptr; node = node->next) {
            sum += node->value;
            node->value *= 2;
        }
        std::cout << sum << std::endl;
        Area::check(swing_allow_hooks(area.token(), 1));
        std::cout << area.token() << std::endl;
        std::string line;
        std::getline(std::cin, line);
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
    return 0;
}
