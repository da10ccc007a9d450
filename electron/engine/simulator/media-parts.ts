/** Content parts as clients of multimodal models send them: few enough different ones that some come again. */
import { createPrng, type Prng } from './prng.ts';

/** Different items; encoder caches hit when one comes again. */
const ITEMS = 40;

function base64(index: number): string {
  const prng = createPrng(index);
  return Buffer.from(Array.from({ length: 96 }, () => prng.int(256))).toString('base64');
}

function mediaPart(index: number): object {
  switch (index % 8) {
    case 0:
    case 1:
    case 2:
      return { type: 'image_url', image_url: { url: `https://images.example/photo-${index}.jpg` } };
    case 3:
      return { type: 'image_url', image_url: { url: `data:image/png;base64,${base64(index)}` } };
    case 4:
      return { type: 'image_url', image_url: { url: `file:///srv/media/scan-${index}.png` } };
    case 5:
      return { type: 'audio_url', audio_url: { url: `https://sounds.example/call-${index}.wav` } };
    case 6:
      return { type: 'input_audio', input_audio: { data: base64(index), format: 'wav' } };
    default:
      return { type: 'video_url', video_url: { url: `https://videos.example/clip-${index}.mp4` } };
  }
}

export function drawMedia(prng: Prng, count: number): object[] {
  return Array.from({ length: count }, () => mediaPart(prng.int(ITEMS)));
}
