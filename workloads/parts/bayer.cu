// Bayer mosaic (RGGB, 8 bit) to RGB, and RGB to a smaller image; both bilinear. See debayer_resize.py.
typedef unsigned char byte;
extern "C" __global__ void debayer(const byte* raw, byte* rgb, int width, int height) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    // Border pixels take the colour of their neighbour inside, as OpenCV does it.
    int x = min(max(column, 1), width - 2), y = min(max(row, 1), height - 2);
    const byte *here = raw + (size_t)y * width + x, *up = here - width, *down = here + width;
    int own = here[0], beside = here[-1] + here[1], above = up[0] + down[0], red, green, blue;
    if ((x + y) & 1) {
        green = own;
        red = ((y & 1 ? above : beside) + 1) >> 1;
        blue = ((y & 1 ? beside : above) + 1) >> 1;
    } else {
        int across = (up[-1] + up[1] + down[-1] + down[1] + 2) >> 2;
        green = (beside + above + 2) >> 2;
        red = y & 1 ? across : own;
        blue = y & 1 ? own : across;
    }
    byte* out = rgb + ((size_t)row * width + column) * 3;
    out[0] = red, out[1] = green, out[2] = blue;
}

extern "C" __global__ void resize(const byte* rgb, byte* small, int width, int height, int w, int h) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= w || row >= h) return;
    float x = fminf(fmaxf((column + 0.5f) * width / w - 0.5f, 0.0f), width - 1.0f);
    float y = fminf(fmaxf((row + 0.5f) * height / h - 0.5f, 0.0f), height - 1.0f);
    int left = (int)x, top = (int)y, right = min(left + 1, width - 1), bottom = min(top + 1, height - 1);
    const byte *a = rgb + (size_t)top * width * 3, *b = rgb + (size_t)bottom * width * 3;
    for (int k = 0; k < 3; ++k) {
        float over = a[left * 3 + k] + (x - left) * (a[right * 3 + k] - a[left * 3 + k]);
        float under = b[left * 3 + k] + (x - left) * (b[right * 3 + k] - b[left * 3 + k]);
        small[((size_t)row * w + column) * 3 + k] = (byte)(over + (y - top) * (under - over) + 0.5f);
    }
}
